// lines: a valgrind tool that counts instructions, exactly; with --lines=yes also which cache lines move between virtual CPUs, and how
// many instructions lie between taking and leaving each spin lock.
//
// One thread of the measured program says which virtual CPU it is, and when counting is on. For each line of 64 bytes the tool keeps
// which CPUs have it and which wrote it last (infinite caches). A line moves when a CPU reads or writes it after another CPU wrote it, or
// writes it while others have it. A lock is a byte that a compare-and-exchange makes 1 from 0; storing 0 there leaves it.
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"

// Requests of the measured program; src/tool.rs has the other side.
enum {
   REQUEST_CPU = 0x4C4E0001, // argument: the virtual CPU from now on, 0 to 127
   REQUEST_COUNT, // 1: lines and locks count; 0: they do not
   REQUEST_RESET, // counters to zero; lines stay where they are
   REQUEST_READ, // argument: address of a Figures
   REQUEST_EXCEPT, // arguments: start and end of a range that never counts
   REQUEST_PRESENT, // answers 1 without --lines=yes, 2 with it
   REQUEST_FORGET, // no CPU has any line
   REQUEST_INSTRUCTIONS, // answers the instructions executed so far
};

// What REQUEST_READ writes.
typedef struct {
   ULong moved_by_reads, moved_by_writes, read_modify_writes, accesses, instructions;
   ULong busiest_line, moves_of_busiest_line;
   ULong busiest_lock, held_by_busiest_lock, held_by_all_locks, acquisitions;
} Figures;

typedef struct { ULong line; ULong have[2]; UInt moved; Short writer; UShort pad; } Line;
typedef struct { Addr address; ULong since; ULong held; Bool taken; } Lock;

#define LINES (1u << 22)
#define LOCKS (1u << 14)
#define EXCEPTIONS 16

static Bool with_lines = False;
static Line* lines;
static Lock* locks;
static UInt cpu;
static ULong counting;
static ULong instructions;
static ULong counted_since;
static UInt exceptions;
static Addr except[EXCEPTIONS][2];
static Figures figures;

static Line* find_line(ULong number) {
   ULong hash = (number * 0x9e3779b97f4a7c15ULL) >> 42;
   UInt tries;
   for (tries = 0; tries < LINES; tries++, hash++) {
      Line* line = &lines[hash & (LINES - 1)];
      if (line->line == number) return line;
      if (line->line == 0) { line->line = number; line->writer = -1; return line; }
   }
   VG_(tool_panic)("more lines than the table has room for");
}

// The lock at an address; none if there is none and none is to be made.
static Lock* find_lock(Addr address, Bool make) {
   ULong hash = (address * 0x9e3779b97f4a7c15ULL) >> 50;
   UInt tries;
   for (tries = 0; tries < LOCKS; tries++, hash++) {
      Lock* lock = &locks[hash & (LOCKS - 1)];
      if (lock->address == address) return lock;
      if (lock->address == 0 && !make) return NULL;
      if (lock->address == 0) { lock->address = address; return lock; }
   }
   VG_(tool_panic)("more locks than the table has room for");
}

static Bool is_excepted(Addr address) {
   UInt i;
   for (i = 0; i < exceptions; i++) if (address >= except[i][0] && address < except[i][1]) return True;
   return False;
}

static VG_REGPARM(1) void read_line(Addr address) {
   Line* line; ULong* have; ULong bit = 1ULL << (cpu & 63);
   if (is_excepted(address)) return;
   figures.accesses++;
   line = find_line(address >> 6);
   have = &line->have[cpu >> 6];
   if (*have & bit) return;
   if (line->writer >= 0 && line->writer != (Short)cpu) { figures.moved_by_reads++; line->moved++; }
   *have |= bit;
}

static VG_REGPARM(1) void write_line(Addr address) {
   Line* line; ULong own, others; ULong bit = 1ULL << (cpu & 63);
   if (is_excepted(address)) return;
   figures.accesses++;
   line = find_line(address >> 6);
   own = line->have[cpu >> 6] & bit;
   others = (line->have[cpu >> 6] & ~bit) | line->have[1 - (cpu >> 6)];
   if (others || (!own && line->writer >= 0 && line->writer != (Short)cpu)) { figures.moved_by_writes++; line->moved++; }
   line->have[0] = line->have[1] = 0;
   line->have[cpu >> 6] = bit;
   line->writer = (Short)cpu;
}

static VG_REGPARM(1) void exchange_line(Addr address) {
   if (is_excepted(address)) return;
   figures.read_modify_writes++;
   write_line(address);
}

// A byte became 1 by a compare-and-exchange.
static VG_REGPARM(1) void take_lock(Addr address) {
   Lock* lock = find_lock(address, True);
   lock->since = instructions;
   lock->taken = True;
   figures.acquisitions++;
}

// A byte became 0 by a store.
static VG_REGPARM(1) void leave_lock(Addr address) {
   Lock* lock = find_lock(address, False);
   if (!lock || !lock->taken) return;
   lock->taken = False;
   lock->held += instructions - lock->since;
   figures.held_by_all_locks += instructions - lock->since;
}

// A call of the tool, made if the expression (of type I1) holds; always if there is none.
static void call(IRSB* out, const HChar* name, void* function, IRExpr* address, IRExpr* guard) {
   IRDirty* dirty = unsafeIRDirty_0_N(1, name, VG_(fnptr_to_fnentry)(function), mkIRExprVec_1(address));
   if (guard) dirty->guard = guard;
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
}

static IRExpr* assign(IRSB* out, IRType type, IRExpr* value) {
   IRTemp temporary = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(temporary, value));
   return IRExpr_RdTmp(temporary);
}

static IRExpr* both(IRSB* out, IRExpr* a, IRExpr* b) {
   IRExpr* wide_a = assign(out, Ity_I64, IRExpr_Unop(Iop_1Uto64, a));
   IRExpr* wide_b = assign(out, Ity_I64, IRExpr_Unop(Iop_1Uto64, b));
   IRExpr* and = assign(out, Ity_I64, IRExpr_Binop(Iop_And64, wide_a, wide_b));
   return assign(out, Ity_I1, IRExpr_Unop(Iop_64to1, and));
}

static IRExpr* is_byte(IRSB* out, IRExpr* value, UInt wanted) {
   return assign(out, Ity_I1, IRExpr_Binop(Iop_CmpEQ8, value, IRExpr_Const(IRConst_U8(wanted))));
}

// Whether counting is on, asked of memory by the translated code itself.
static IRExpr* is_counting(IRSB* out) {
   IRExpr* value = assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)&counting)));
   return assign(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, value, IRExpr_Const(IRConst_U64(0))));
}

static void count_instructions(IRSB* out, UInt n) {
   IRExpr* place = mkIRExpr_HWord((HWord)&instructions);
   IRExpr *before, *after;
   if (!n) return;
   before = assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, place));
   after = assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, before, IRExpr_Const(IRConst_U64(n))));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, place, after));
}

// The calls for one statement. Returns whether they stand after it and not before.
static void watch(IRSB* out, IRStmt* st, IRTypeEnv* types) {
   IRExpr* on;
   switch (st->tag) {
      case Ist_WrTmp:
         if (st->Ist.WrTmp.data->tag == Iex_Load) call(out, "read_line", read_line, st->Ist.WrTmp.data->Iex.Load.addr, is_counting(out));
         break;
      case Ist_LoadG:
         on = both(out, is_counting(out), st->Ist.LoadG.details->guard);
         call(out, "read_line", read_line, st->Ist.LoadG.details->addr, on);
         break;
      case Ist_Store:
         on = is_counting(out);
         call(out, "write_line", write_line, st->Ist.Store.addr, on);
         if (typeOfIRExpr(types, st->Ist.Store.data) == Ity_I8)
            call(out, "leave_lock", leave_lock, st->Ist.Store.addr, both(out, on, is_byte(out, st->Ist.Store.data, 0)));
         break;
      case Ist_StoreG:
         on = both(out, is_counting(out), st->Ist.StoreG.details->guard);
         call(out, "write_line", write_line, st->Ist.StoreG.details->addr, on);
         break;
      case Ist_CAS: {
         IRCAS* cas = st->Ist.CAS.details;
         on = is_counting(out);
         call(out, "exchange_line", exchange_line, cas->addr, on);
         if (typeOfIRExpr(types, cas->dataLo) == Ity_I8 && cas->oldHi == IRTemp_INVALID) {
            IRExpr* changed = both(out, is_byte(out, IRExpr_RdTmp(cas->oldLo), 0), is_byte(out, cas->dataLo, 1));
            call(out, "take_lock", take_lock, cas->addr, both(out, on, changed));
         }
         break;
      }
      default: break;
   }
}

static IRSB* instrument(VgCallbackClosure* c, IRSB* in, const VexGuestLayout* l, const VexGuestExtents* e, const VexArchInfo* a, IRType gw, IRType hw) {
   Int i; UInt n = 0;
   IRSB* out = deepCopyIRSBExceptStmts(in);
   for (i = 0; i < in->stmts_used; i++) {
      IRStmt* st = in->stmts[i];
      if (!st) continue;
      // The counter is exact wherever it may be read: at exits, and where a lock is taken or left.
      if (st->tag == Ist_IMark) n++;
      if (st->tag == Ist_Exit || st->tag == Ist_CAS || st->tag == Ist_Store) { count_instructions(out, n); n = 0; }
      // A compare-and-exchange has an outcome only afterwards.
      if (with_lines && st->tag != Ist_CAS) watch(out, st, in->tyenv);
      addStmtToIRSB(out, st);
      if (with_lines && st->tag == Ist_CAS) watch(out, st, in->tyenv);
   }
   count_instructions(out, n);
   return out;
}

static void read_figures(Figures* to) {
   UInt i;
   for (i = 0; i < LINES; i++)
      if (lines[i].moved > figures.moves_of_busiest_line) {
         figures.moves_of_busiest_line = lines[i].moved;
         figures.busiest_line = lines[i].line << 6;
      }
   for (i = 0; i < LOCKS; i++)
      if (locks[i].held > figures.held_by_busiest_lock) {
         figures.held_by_busiest_lock = locks[i].held;
         figures.busiest_lock = locks[i].address;
      }
   *to = figures;
}

static Bool request(ThreadId thread, UWord* arg, UWord* ret) {
   UInt i;
   *ret = 0;
   switch (arg[0]) {
      case REQUEST_CPU: cpu = (UInt)arg[1] & 127; return True;
      case REQUEST_COUNT:
         if (counting) figures.instructions += instructions - counted_since;
         counted_since = instructions;
         counting = arg[1];
         return True;
      case REQUEST_RESET:
         VG_(memset)(&figures, 0, sizeof figures);
         counted_since = instructions;
         if (!with_lines) return True;
         for (i = 0; i < LINES; i++) lines[i].moved = 0;
         for (i = 0; i < LOCKS; i++) locks[i].held = 0;
         return True;
      case REQUEST_READ: if (with_lines) read_figures((Figures*)arg[1]); *ret = with_lines; return True;
      case REQUEST_EXCEPT:
         if (exceptions == EXCEPTIONS) return False;
         except[exceptions][0] = arg[1]; except[exceptions][1] = arg[2]; exceptions++;
         return True;
      case REQUEST_PRESENT: *ret = with_lines ? 2 : 1; return True;
      case REQUEST_FORGET: if (with_lines) VG_(memset)(lines, 0, sizeof(Line) * LINES); return True;
      case REQUEST_INSTRUCTIONS: *ret = instructions; return True;
   }
   return False;
}

static Bool process_option(const HChar* arg) { return VG_BOOL_CLO(arg, "--lines", with_lines); }
static void print_usage(void) { VG_(printf)("    --lines=no|yes   count moved cache lines and locks too [no]\n"); }
static void print_debug_usage(void) {}
static void post_clo_init(void) {
   if (!with_lines) return;
   lines = VG_(calloc)("lines", LINES, sizeof(Line));
   locks = VG_(calloc)("locks", LOCKS, sizeof(Lock));
}
static void fini(Int code) {}
static void pre_clo_init(void) {
   VG_(details_name)("lines");
   VG_(details_version)(NULL);
   VG_(details_description)("instructions, cache lines moved, locks held");
   VG_(details_copyright_author)("The pageblock authors.");
   VG_(details_bug_reports_to)("the project's issue tracker");
   VG_(details_avg_translation_sizeB)(600);
   VG_(basic_tool_funcs)(post_clo_init, instrument, fini);
   VG_(needs_client_requests)(request);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
}
VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)

int __popcountdi2(long x);
int __popcountdi2(long x) { unsigned long v = x; int n = 0; while (v) { n++; v &= v - 1; } return n; }
