// Compiles a seccomp profile into a classic BPF program. In a container the OCI runtime does this; in a virtual machine the runner installs the
// compiled filter.
import { endianness } from 'node:os'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import { syscallNumbers } from './syscall-numbers.ts'

type Rule = SeccompProfile['syscalls'][number]
type Arg = NonNullable<Rule['args']>[number]

/** One instruction: code, jump if true, jump if false, operand. */
type Instruction = readonly [number, number, number, number]

/** Opcodes of classic BPF: load a word of seccomp_data, compare, jump, return an action. */
const [LOAD, AND, JUMP, EQUAL, GREATER, AT_LEAST, RETURN] = [0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x06]
/** struct seccomp_data: number, architecture, instruction pointer, six arguments of 64 bits. */
const [NUMBER, ARCHITECTURE, FIRST_ARGUMENT] = [0, 4, 16]
const [ALLOW, ERRNO] = [0x7fff_0000, 0x0005_0000]
const AUDIT_ARCH = { x64: 0xc000_003e, arm64: 0xc000_00b7 }
/** System call numbers of the x32 table on x64 begin here. */
const X32 = 0x4000_0000

export function seccompFilter(profile: SeccompProfile, arch: 'x64' | 'arm64'): Buffer {
  if (endianness() !== 'LE') throw new Error('only little-endian hosts are supported')
  const numbers = syscallNumbers(arch)
  const fallback = actionValue(profile.defaultAction, profile.defaultErrnoRet)
  const plain = new Map<number, number[]>()
  const conditional = new Map<number, Rule[]>()
  for (const rule of profile.syscalls) {
    for (const name of rule.names) {
      const number = numbers.get(name)
      if (number === undefined) continue
      if (rule.args === undefined) plain.set(actionOf(rule), [...(plain.get(actionOf(rule)) ?? []), number])
      else conditional.set(number, [...(conditional.get(number) ?? []), rule])
    }
  }
  const program: Instruction[] = [
    [LOAD, 0, 0, ARCHITECTURE],
    // SECURITY: the 32-bit tables have other numbers, so a forbidden call could pass under the number of an allowed one.
    [EQUAL, 1, 0, AUDIT_ARCH[arch]],
    [RETURN, 0, 0, fallback],
    [LOAD, 0, 0, NUMBER],
    ...(arch === 'x64'
      ? ([
          [AT_LEAST, 0, 1, X32],
          [RETURN, 0, 0, fallback],
        ] as const)
      : []),
    ...[...plain].flatMap(([answer, calls]) => ranges(calls).flatMap(range => inRange(range, answer))),
    ...[...conditional].flatMap(([number, rules]) => whenCalled(number, rules, fallback)),
    [RETURN, 0, 0, fallback],
  ]
  return encode(program)
}

function actionOf({ action, errnoRet }: Rule): number {
  return actionValue(action, errnoRet ?? 0)
}

function actionValue(action: string, errno: number): number {
  if (action === 'SCMP_ACT_ALLOW') return ALLOW
  if (action === 'SCMP_ACT_ERRNO') return ERRNO | errno
  throw new RangeError(`unknown action: ${action}`)
}

/** The numbers as the fewest ranges. */
function ranges(numbers: readonly number[]): [number, number][] {
  const runs: [number, number][] = []
  for (const number of [...new Set(numbers)].toSorted((a, b) => a - b)) {
    const last = runs.at(-1)
    if (last !== undefined && last[1] === number - 1) last[1] = number
    else runs.push([number, number])
  }
  return runs
}

function inRange([from, to]: [number, number], answer: number): Instruction[] {
  if (from === to)
    return [
      [EQUAL, 0, 1, from],
      [RETURN, 0, 0, answer],
    ]
  return [
    [AT_LEAST, 0, 2, from],
    [GREATER, 1, 0, to],
    [RETURN, 0, 0, answer],
  ]
}

/** The first rule whose arguments match decides. */
function whenCalled(number: number, rules: readonly Rule[], fallback: number): Instruction[] {
  const body: Instruction[] = rules.flatMap(rule => {
    const checks: Instruction[] = []
    // A failed check jumps over the rest of its rule: the later checks and the action. So the checks are built from the last to the first.
    for (const arg of (rule.args ?? []).toReversed()) checks.unshift(...check(arg, checks.length + 1))
    return [...checks, [RETURN, 0, 0, actionOf(rule)] as const]
  })
  const whole: Instruction[] = [...body, [RETURN, 0, 0, fallback]]
  return [[EQUAL, 1, 0, number], [JUMP, 0, 0, whole.length], ...whole]
}

/** Continues with the next instruction if the argument matches, else jumps over `skip` more instructions. */
function check({ index, value, valueTwo, op }: Arg, skip: number): Instruction[] {
  const low = FIRST_ARGUMENT + index * 8
  const high = low + 4
  const [upper, lower] = split(op === 'SCMP_CMP_MASKED_EQ' ? (valueTwo ?? 0) : value)
  if (op === 'SCMP_CMP_MASKED_EQ') {
    const [upperMask, lowerMask] = split(value)
    const lowerPart: Instruction[] = [
      [LOAD, 0, 0, low],
      [AND, 0, 0, lowerMask],
      [EQUAL, 0, skip, lower],
    ]
    if (upperMask === 0) return lowerPart
    return [[LOAD, 0, 0, high], [AND, 0, 0, upperMask], [EQUAL, 0, skip + lowerPart.length, upper], ...lowerPart]
  }
  if (op === 'SCMP_CMP_EQ')
    return [
      [LOAD, 0, 0, high],
      [EQUAL, 0, skip + 2, upper],
      [LOAD, 0, 0, low],
      [EQUAL, 0, skip, lower],
    ]
  if (op === 'SCMP_CMP_GT')
    return [
      [LOAD, 0, 0, high],
      [GREATER, 3, 0, upper],
      [EQUAL, 0, skip + 2, upper],
      [LOAD, 0, 0, low],
      [GREATER, 0, skip, lower],
    ]
  throw new RangeError(`unknown comparison: ${op}`)
}

function split(value: number): [number, number] {
  return [Math.floor(value / 2 ** 32), value % 2 ** 32]
}

function encode(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(([code, yes, no, operand], i) => {
    bytes.writeUInt16LE(code, i * 8)
    bytes.writeUInt8(yes, i * 8 + 2)
    bytes.writeUInt8(no, i * 8 + 3)
    bytes.writeUInt32LE(operand >>> 0, i * 8 + 4)
  })
  return bytes
}
