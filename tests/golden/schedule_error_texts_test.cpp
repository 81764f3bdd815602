// golden/schedule_error_texts_test.cpp -- messages of directives word for word: each with a
// schedule that causes it. tools/check_error_texts.py lists those that no test names.
#include "golden/small_cones.h"

namespace luminal::kernel::schedule_error_texts_test {
namespace {

const RefusedSchedule rows[] = {
    {"top2", "at b i", "`at b i`: there is no stage b"},
    {"product", "at r i;before r f", "`before r f`: stage r has its place in loop i"},
    {"map", "rolling y", "`rolling y`: stage y is not a scan"},
    {"running", "rolling f", "`rolling f`: y is stored outside of the kernel"},
    {"chain", "cascade f root", "`cascade f root`: stage f is not a tuple whose components read each other"},
    {"map", "cascade y i0", "`cascade y i0`: stage y is not a tuple, and not made of folds alone"},
    {"running_top", "cascade f outer", "`cascade f outer`: stage f is a scan"},
    {"attention", "cascade F e", "`cascade F e`: loop e is not part of the reduction"},
    {"added", "stage x copy;fuse copy y", "`fuse copy y`: stage y keeps its own nest"},
    {"attention", "fuse f out", "`fuse f out`: another stage stands between f and out"},
    {"gather", "fuse f g", "`fuse f g`: stages f and g run over different axes"},
    {"own_index", "fuse f g", "`fuse f g`: stage g takes an index from h before it is written"},
    {"top2", "stage x copy;fuse copy f", "`fuse copy f`: stage f is a tuple"},
    {"turned", "stage x copy;fuse copy y", "`fuse copy y`: stage y reads copy at other points"},
    {"top2", "cascade f root;fuse a b", "`fuse a b`: stage b reads a before it is finished"},
    {"product", "inline c", "`inline c`: c is not a plain map"},
    {"top2", "cascade f k;inline a.state", "`inline a.state`: a.state is written by two stages"},
    {"halves", "padded_copy b copy;split_reduction f k pairs 2 8;inline copy",
     "`inline copy`: copy is not written at plain axes"},
    {"turned", "jam y j 129", "`jam y j 129`: a trip has 1 to 64 bodies"},
    {"product", "blocked_sum f k 0", "`blocked_sum f k 0`: a block of a sum has at least one trip"},
    {"windows", "split_reduction f r serial 4;materialize v copy",
     "`materialize v copy`: the parts along r.part go beyond the end of what was split: a copy would, too"},
    {"map", "materialize none y", "`materialize none y`: no stage computes none"},
    {"product", "fuse f r;materialize r r", "`materialize r r`: r is not a plain map"},
    {"map", "materialize none copy", "`materialize none copy`: no stage computes none"},
    {"parts", "materialize bb copy", "`materialize bb copy`: bb is nowhere read at plain axes"},
    {"shifted_rows", "materialize e copy",
     "`materialize e copy`: e is nowhere read at plain axes that have all that is read of it"},
    {"shifted_rows", "materialize e y", "`materialize e y`: y has not all elements of e that are read"},
    {"product", "fuse f r;materialize r copy", "`materialize r copy`: r is made of results of its own stage"},
    {"gather", "merge f i n d", "`merge f i n d`: stage f already has a loop d"},
    {"added", "vector y d d;merge y t d copy",
     "`merge y t d copy`: a loop of stage y has the lanes already: merge before"},
    {"nothing", "merge y i0 i1 copy",
     "`merge y i0 i1 copy`: loop i1 of stage y has no element: nothing divides by it"},
    {"product", "merge f i.o j.o j.o",
     "`merge f i.o j.o j.o`: stage f has no neighbouring loops i.o and j.o"},
    {"turned", "operand y i copy", "`operand y i copy`: stage y is not a sum of products"},
    {"attention", "cascade F k_2;operand o e copy",
     "`operand o e copy`: F.w is made only where stage l needs it: a copy would read what nobody wrote"},
    {"gather", "operand f i copy", "`operand f i copy`: no factor of stage f varies with i"},
    {"gather", "operand f n copy",
     "`operand f n copy`: a factor of stage f is found through indices from memory"},
    {"scaled", "operand f i copy", "`operand f i copy`: a factor of stage f is the same everywhere"},
    {"turned", "order y j j", "`order y j j`: loop j is named twice"},
    {"windows", "order f s r", "`order f s r`: order must name every loop; missing: o i j c"},
    {"map", "padded_copy x copy i1",
     "`padded_copy x copy i1`: an axis and the size of its blocks are expected"},
    {"packed", "padded_copy w copy",
     "`padded_copy w copy`: w is read as f16: a copy would not hold its bytes"},
    {"map", "padded_copy x copy i1 1",
     "`padded_copy x copy i1 1`: axis i1 is not made of several blocks of 1 elements"},
    {"added", "padded_copy l copy t 2",
     "`padded_copy l copy t 2`: an index that is read from memory varies with t"},
    {"rows", "split f j j.o j.i 16;padded_copy y copy j 4",
     "`padded_copy y copy j 4`: stage f: its loops have been changed before j is cut"},
    {"repeated", "padded_copy x copy i 2", "`padded_copy x copy i 2`: x: blocks of i are not in equal steps"},
    {"steps", "padded_copy x copy",
     "`padded_copy x copy`: x: no axis varies with i*2 + r*3 - 2 in single steps"},
    {"shifted", "padded_copy x copy",
     "`padded_copy x copy`: x: whether it is read does not depend on the place in it alone"},
    {"added", "prefetch y x inner 1", "`prefetch y x inner 1`: stage y has no loop inner"},
    {"product", "prefetch f a i j k 1", "`prefetch f a i j k 1`: one loop and one inside of it are enough"},
    {"bytes", "roles f i 0", "`roles f i 0`: a ring is at least 1 deep"},
    {"map", "unfold y", "`unfold y`: stage y is not one fold alone"},
    {"rows", "unfold f", "`unfold f`: stage f has more points than 16 along j"},
    {"gather", "segments f i 3", "`segments f i 3`: 1 or 2 is expected"},
    {"rows", "split_reduction f j serial 2 8;segments y j.part",
     "`segments y j.part`: stage y: its loops have been changed before its axes are cut"},
    {"gather", "segments f n", "`segments f n`: stage f does not only map: its axes stay whole"},
    {"rows", "segments y i 1", "`segments y i 1`: stage y: nothing changes along i"},
    {"parts", "segments y i 2", "`segments y i 2`: stage y: the parts of i have no common length"},
    {"map", "split y i1 y inner 4", "`split y i1 y inner 4`: the name y belongs to a value already"},
    {"product", "split f i m inner 4", "`split f i m inner 4`: the name m belongs to a dimension already"},
    {"gather", "split f i h0 inner 4",
     "`split f i h0 inner 4`: the name h0 belongs to an index that is read from memory"},
    {"top2", "split a k k.o root 16", "`split a k k.o root 16`: root is not a name of a loop"},
    {"append", "vector next d;split * d outer inner 1",
     "`split * d outer inner 1`: loop d of stage next has the lanes already: split it before"},
    {"turned", "split * j a a 4", "`split * j a a 4`: the parts of a split need two names"},
    {"turned", "split y inner outer inner2 0", "`split y inner outer inner2 0`: a factor is at least 1"},
    {"added", "split_at y d 30", "`split_at y d 30`: stage y keeps the order of its axes"},
    {"turned", "split_at y i 39", "`split_at y i 39`: stage y: i is not cut in two after 39 elements"},
    {"top2", "cascade f k;split_at b k 12", "`split_at b k 12`: stage b is part of a cascade"},
    {"append", "split_at next d 5", "`split_at next d 5`: stage next writes its results in order"},
    {"bytes", "split_at f k 15", "`split_at f k 15`: stage f reduces k, which split_reduction cuts"},
    {"map", "split_reduction y i1.i serial 3", "`split_reduction y i1.i serial 3`: stage y has no axis i1.i"},
    {"turned", "split_reduction y i odd 0 0",
     "`split_reduction y i odd 0 0`: odd is not a combining tree (serial, pairs)"},
    {"gather", "split_reduction f n pairs 1 2",
     "`split_reduction f n pairs 1 2`: a reduction splits into 2 to 4096 parts"},
    {"product", "split_reduction r j serial 3", "`split_reduction r j serial 3`: stage r is not a fold"},
    {"gather", "split_reduction f i serial 2 8",
     "`split_reduction f i serial 2 8`: stage f does not reduce i"},
    {"top2", "cascade f k;split_reduction b k pairs 2",
     "`split_reduction b k pairs 2`: stage b goes on from an earlier state"},
    {"product", "split f i i.o i.i 4;split * i.i outer inner 3;split_reduction f k pairs 2 1",
     "`split_reduction f k pairs 2 1`: stage f keeps parts of an axis that does not end with them"},
    {"top2", "split_reduction f k pairs 3 1",
     "`split_reduction f k pairs 3 1`: the states of a tuple are combined one after the other; pairs is for "
     "plain folds"},
    {"windows", "split_reduction f s pairs 3 0",
     "`split_reduction f s pairs 3 0`: a block has at least one element"},
    {"sums", "split_reduction f k pairs 4",
     "`split_reduction f k pairs 4`: the extent of k is not constant: distribute it in blocks (a second "
     "number)"},
    {"gather", "split g d d.o d.i 16;split_reduction f d serial 2 8",
     "`split_reduction f d serial 2 8`: axis d of stage g is split already"},
    {"map", "store y i0 i1 i1 in local", "`store y i0 i1 i1 in local`: y is stored outside of the kernel"},
    {"attention", "store s d in moon", "`store s d in moon`: there is no space moon"},
    {"attention", "store s q_2 k_2/4 e%4",
     "`store s q_2 k_2/4 e%4`: there is no dimension e (s has the dimensions q_2, k_2)"},
    {"added", "stream y", "`stream y`: y is not an output of the kernel"},
    {"turned", "stream j", "`stream j`: there is no value j"},
    {"bytes", "unit f vnni.dpbusd copy copy2 copy3",
     "`unit f vnni.dpbusd copy copy2 copy3`: a dot instruction has two operands"},
    {"thirds", "unit f avx512.dpbf16 copy",
     "`unit f avx512.dpbf16 copy`: the domain of stage f does not begin or end along k"},
    {"plain", "unit f amx.dpbf16", "`unit f amx.dpbf16`: amx.dpbf16 reads one copy in words"},
    {"inner", "unit f amx.dpbf16 copy",
     "`unit f amx.dpbf16 copy`: the results of stage f are contiguous along no axis"},
    {"map", "unit y nounit copy", "`unit y nounit copy`: there is no dot instruction nounit"},
    {"map", "matrix y copy 16", "`matrix y copy 16`: stage y is not one sum of products"},
    {"halves", "matrix f copy 16", "`matrix f copy 16`: stage f leaves out points of its sum"},
    {"plain", "matrix f copy 0", "`matrix f copy 0`: columns in multiples of 0"},
    {"product", "matrix f copy 16", "`matrix f copy 16`: the extent of i is not known"},
    {"plain", "split f j j.o j.i 4;matrix f copy 16",
     "`matrix f copy 16`: the loops or results of stage f have been changed before"},
    {"windows", "split_at f i 4;matrix f.p1 copy 16",
     "`matrix f.p1 copy 16`: stage f.p1 writes its results at no plain axes"},
    {"inner", "matrix f copy 16",
     "`matrix f copy 16`: the results of stage f are contiguous along no axis of one operand"},
    {"groups", "matrix f copy 16", "`matrix f copy 16`: both operands vary with g"},
    {"attention", "unit F avx512.dpbf16", "`unit F avx512.dpbf16`: stage F computes several things at once"},
    {"product", "unit f avx512.dpbf16 copy copy2",
     "`unit f avx512.dpbf16 copy copy2`: stage f sums no products of converted numbers"},
    {"bytes", "unit f arm.sdot copy copy2",
     "`unit f arm.sdot copy copy2`: arm.sdot multiplies i8 and i8, stage f i8 and u8"},
    {"halves", "stage a copy;unit f avx512.dpbf16 copy2",
     "`unit f avx512.dpbf16 copy2`: copy may not be made outside of the domain of stage f"},
    {"bytes", "unit f vnni.dpbusd copy copy2",
     "`unit f vnni.dpbusd copy copy2`: stage f: its operands do not lie in words of 4 elements along any "
     "reduced axis"},
    {"product", "vector f j i",
     "`vector f j i`: loop i has m trips, which is not a constant: it cannot be a vector loop"},
    {"added", "vector y t", "`vector y t`: loop t of stage y keeps its order and cannot be a vector loop"},
    {"bytes", "merge f j k copy;merge f i copy copy2;vector f copy2",
     "`vector f copy2`: loop copy2 has 3840 trips: a vector has between 1 and 1024 lanes"},
    {"map", "vector y i1 i0", "`vector y i1 i0`: stage y already has a vector loop i1"},
};

TEST(ScheduleErrorTexts, Directives) {
  expect_refused(rows);
  EXPECT_EQ(refusal("map", "stream x"), "[schedule] main: `stream x`: x is not an output of the kernel");
}

TEST(ScheduleErrorTexts, Texts) {
  const auto first_line = [](const std::string& text) {
    try {
      parse_schedule(text, "s.txt");
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(0, what.find('\n'));
    }
    return std::string("accepted");
  };
  EXPECT_EQ(first_line("split y i o r 4\n jump y\n"), "s.txt:2:2: there is no directive 'jump'");
  EXPECT_EQ(first_line("split y"), "s.txt:1:1: expected `split STAGE LOOP OUTER INNER FACTOR`");
  EXPECT_EQ(first_line("order y 4"), "s.txt:1:1: expected `order STAGE LOOP...`");
  EXPECT_EQ(first_line("jam y i 2 3"), "s.txt:1:1: expected `jam STAGE LOOP COUNT`");
}

} // namespace
} // namespace luminal::kernel::schedule_error_texts_test
