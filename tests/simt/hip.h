// simt/hip.h -- the built-in functions of clang for AMD's processors, on this one (simt.h).
#pragma once
#include "simt.h"

#define __builtin_amdgcn_workgroup_id_x() (simt::block->group)
#define __builtin_amdgcn_workitem_id_x() (simt::block->current->number)
#define __builtin_amdgcn_grid_size_x() (simt::block->groups * simt::block->threads)
#define __builtin_amdgcn_workgroup_size_x() (simt::block->threads)
#define __builtin_amdgcn_fence(order, scope) (void)0
#define __builtin_amdgcn_s_barrier() simt::barrier()
