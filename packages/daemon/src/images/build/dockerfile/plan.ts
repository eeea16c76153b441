// Finds the base images of a Dockerfile, and rewrites it so that the engine never resolves an image name itself.
import { ARCHITECTURE } from '../../manifest.ts'
import { refuseFetch, refuseLater, sourceImage } from './copy.ts'
import { type Dockerfile, type Instruction, invalidInstruction } from './dockerfile.ts'
import { argsIn, expand, PREDEFINED_ARGS } from './expand.ts'

export interface Plan {
  /** References as written in the file, without duplicates. */
  readonly bases: readonly string[]
  /** The file with each reference replaced by the name at the same index. */
  dockerfile(names: readonly string[]): string
  /** The instructions up to the end of the target, as they are written. */
  readonly instructions: readonly Instruction[]
  readonly escapeCharacter: Dockerfile['escapeCharacter']
  /** The file name in error messages. */
  readonly name: string
}

export interface PlanOptions {
  /** The file name in error messages. */
  readonly name: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly target?: string | undefined
  /** Whether ADD may fetch URLs. */
  readonly fetches: boolean
}

type Piece = string | { readonly base: number }

/** Leaves out the stages after `target`. */
export function planBuild({ escapeCharacter, instructions }: Dockerfile, options: PlanOptions): Plan {
  const { name } = options
  const values = new Map(Object.entries(PREDEFINED_ARGS))
  const bases: string[] = []
  const stages: string[] = []
  const kept: Instruction[] = []
  const pieces: Piece[] = escapeCharacter === '\\' ? [] : [`# escape=${escapeCharacter}\n`]
  const baseOf = (reference: string): Piece => {
    if (!bases.includes(reference)) bases.push(reference)
    return { base: bases.indexOf(reference) }
  }
  for (const instruction of instructions) {
    const { word, rest } = instruction
    if (word === 'FROM') {
      if (isReached(stages, options.target)) break
      kept.push(instruction)
      const { image, stage } = readFrom(name, instruction, values)
      const isOther = image !== 'scratch' && !stages.includes(image.toLowerCase())
      pieces.push('FROM ', isOther ? baseOf(image) : image, stage === undefined ? '\n' : ` AS ${stage}\n`)
      stages.push((stage ?? '').toLowerCase())
      continue
    }
    kept.push(instruction)
    if (stages.length === 0) {
      if (word !== 'ARG')
        throw invalidInstruction(name, instruction.line, `has ${word}, but only ARG may come before the first FROM`)
      for (const { name: arg, value } of argsIn(rest)) {
        const given = options.buildArgs[arg] ?? (value === undefined ? undefined : expand(value, values))
        if (given !== undefined) values.set(arg, given)
      }
    }
    if (word === 'ONBUILD') refuseLater(name, instruction, options.fetches)
    if (word === 'ADD') refuseFetch(name, instruction, options.fetches)
    // The current stage does not exist yet for the engine: its name means an image.
    const from = word === 'COPY' || word === 'ADD' ? sourceImage(name, instruction, stages.slice(0, -1)) : undefined
    if (from === undefined) pieces.push(`${word} ${rest}\n`)
    else pieces.push(`${word} ${from.before}`, baseOf(from.image), `${from.after}\n`)
  }
  if (stages.length === 0) throw invalidInstruction(name, 1, 'begins a file without FROM')
  if (options.target !== undefined && !isReached(stages, options.target))
    throw invalidInstruction(name, 1, `begins a file that has no stage ${options.target}`, 'name a stage of the Dockerfile')
  return {
    bases,
    instructions: kept,
    escapeCharacter,
    name,
    dockerfile: names => pieces.map(piece => (typeof piece === 'string' ? piece : (names[piece.base] ?? ''))).join(''),
  }
}

/** A target is the name or the number of a stage. */
function isReached(stages: readonly string[], target: string | undefined): boolean {
  if (target === undefined) return false
  const at = stages.indexOf(target.toLowerCase())
  return at >= 0 || (/^\d+$/.test(target) && Number(target) < stages.length)
}

export function readFrom(
  name: string,
  { line, rest }: Instruction,
  values: ReadonlyMap<string, string>,
): { image: string; stage: string | undefined } {
  const words = rest.split(/\s+/).filter(Boolean)
  while (words[0]?.startsWith('--')) {
    const flag = expand(words.shift() ?? '', values)
    const platform = /^--platform=(.*)$/.exec(flag)?.[1]
    if (platform === undefined) throw invalidInstruction(name, line, `has an unknown flag ${flag}`)
    if (!['', 'linux', `linux/${ARCHITECTURE}`, ARCHITECTURE].includes(platform))
      throw invalidInstruction(name, line, `asks for ${platform}, but this machine is linux/${ARCHITECTURE}`)
  }
  const [image = '', as, stage, ...more] = words
  const expanded = expand(image.replace(/^(["'])(.*)\1$/, '$2'), values)
  if (expanded === '')
    throw invalidInstruction(name, line, `has no image: ${image || 'FROM'} is empty`, 'set it with --build-arg')
  const isValid = as === undefined || (as.toUpperCase() === 'AS' && stage !== undefined && more.length === 0)
  if (!isValid || /["'\\`$]/.test(expanded) || (stage !== undefined && !/^[a-zA-Z][\w.-]*$/.test(stage)))
    throw invalidInstruction(name, line, 'is not FROM IMAGE or FROM IMAGE AS NAME')
  return { image: expanded, stage }
}
