// golden/lowering_error_texts_test.cpp -- messages of schedules whose directives apply, but which
// have no loops: each with a schedule that causes it.
#include "golden/small_cones.h"

namespace luminal::kernel {
namespace {

const RefusedSchedule rows[] = {
    {"product", "merge f j k copy", "stage f: loop copy runs over reduced and other axes at once"},
    {"bytes", "at f i", "stage f: loop i is not open before it"},
    {"product", "stage b copy;at f k",
     "stage f: its order does not begin with the loops that it joins (i comes before k)"},
    {"rows", "parallel f i;at f i", "stage f: loop i is not the loop of that name of stage y"},
    {"product", "store c i", "c cannot be stored in loop i: it is written or read outside of it"},
    {"attention", "split_at F q_2 2", "F.0 is written at different places of the kernel"},
    {"product", "at r i;store c i in shared;parallel * i",
     "c is stored in a parallel loop and cannot be shared by all workers"},
    {"product", "at r j;store c i i j in local",
     "c is stored outside of parallel loops: every worker needs it, so it cannot be local"},
    {"turned", "parallel y j;parallel y i", "parallel loops of one level stand inside each other: j in i"},
    {"added", "roles y t 1", "roles t: the loop does not begin with copies that other stages read"},
    {"gather", "parallel f i;at g i;split g i outer inner 3",
     "stage g writes g in the parallel loop i, which it does not have: all iterations would write it"},
    {"top2", "padded_copy x copy k 5;cascade f k.r;at f.next i",
     "stage f.next must run in loop k.r, as the other stages of its cascade do"},
    {"top2", "split * k outer inner 4;cascade f outer;at b i",
     "stage b must run in the same loop outer as the other stages of its cascade"},
    {"gather", "parallel * d",
     "stage f: loop d is part of the reduction and cannot be parallel (split_reduction makes independent "
     "parts)"},
    {"top2", "cascade f k;parallel * i;split f.next i outer inner 1",
     "a.state is stored outside of the parallel loop i, whose iterations would share it"},
    {"attention", "at out e", "stage out would read l before the fold along k_2 is finished"},
    {"product", "at r i;split r i outer inner 1", "stage r reads c outside of what f makes in one trip of i"},
    {"wide", "fuse f r;split f k k.o k.i 8;vector f k.i;roles f k.o 3",
     "stage f keeps its folds in registers alone, and its loops leave them before they are finished"},
    {"plain", "unit f amx.dpbf16 copy", "no loop takes whole tiles of amx.dpbf16"},
    {"plain", "stage a copy;unit f avx512.dpbf16 copy2;store copy root k i",
     "stage f reads copy in words: neighbours along its last dimension are not contiguous"},
    {"product", "prefetch r c i i 1;merge r i j copy",
     "prefetch: c lies in the kernel, i is not a loop of stage r"},
    {"turned", "prefetch y x j i 1;merge y i j copy;materialize y copy2",
     "prefetch: loop i does not run in loop j"},
    {"bytes", "prefetch f c i k 1;split f i outer inner 16", "prefetch: stage f has no loop i any more"},
    {"product", "prefetch f r j i 1", "prefetch: loop j is not outside of i"},
    {"chain", "prefetch m d i k 1", "prefetch: stage m does not touch d"},
    {"turned", "merge y i j copy;prefetch y x copy 1", "prefetch: x is not read in equal steps along copy"},
    {"attention", "",
     "stage F: its components run over different axes; `cascade F LOOP` makes a stage of each"},
    {"turned", "vector y i i", "stage y: the vector loop i stands outside of a serial loop"},
    {"top2", "vector f k",
     "stage f: lanes of loop k hold states of a tuple, which cannot be combined; cascade it first"},
    {"any", "vector f k", "stage f: lanes cannot be combined by bit_or"},
    {"below", "vector y d", "stage y: its domain varies along the vector loop d"},
    {"running", "roles f k 1", "stage f: other stages cannot run inside of the scan along k"},
    {"running", "order f k i", "stage f: a serial loop stands inside of the scan along k"},
    {"product", "split f j j.o j.i 16;split f i i.o i.i 64;vector f j.i;unroll f i.i j.o;unroll f k",
     "stage f: 24576 accumulators are more than registers can hold"},
    {"chain", "predicate_split k_2",
     "stage f: loop k_2 may have no trip at all, and its result would never be written"},
    {"added", "parallel y d",
     "stage y: parallel loop d stands inside of t, whose trips take turns at the same elements"},
    {"top2", "split_reduction f k serial 3;vector f k.part",
     "stage f: the end of an axis lies inside the vector loop k.part, but not along it"},
    {"windows", "split * r outer inner 2;merge f c outer copy",
     "stage f: loop copy was merged and its end is not regular"},
    {"windows",
     "vector f j;order f i r o s c j;split * s outer b 4;split f b inner d 2;order f i r o outer d inner c "
     "j;merge f inner c copy",
     "stage f: the loops inside d were merged and its end is not regular"},
    {"product", "blocked_sum f i 4", "stage f: loop i is not a serial loop of its sum"},
    {"product", "split f k k.o k.i 4;blocked_sum f k.o 2;blocked_sum f k.i 2",
     "stage f: the blocks of one loop are summed apart, not those of k.i too"},
    {"product", "order f k i j;blocked_sum f k 2",
     "stage f: the sum goes through memory from one trip of loop k to the next: its blocks have one trip"},
    {"running", "blocked_sum f k 4", "stage f has more than plain folds, whose blocks cannot be added"},
    {"product", "fuse f r;order f j k i",
     "stage f: a component has no storage to go on from one trip of k to the next"},
};

TEST(ScheduleErrorTexts, Lowering) { expect_refused(rows); }

} // namespace
} // namespace luminal::kernel
