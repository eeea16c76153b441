// What a Dockerfile starts from, and how it is told to an engine that must not look for any image by itself.
import { ARCHITECTURE } from '../../manifest.ts'
import { refuseFetch, refuseLater, sourceImage } from './copy.ts'
import { type Dockerfile, type Instruction, wrong } from './dockerfile.ts'
import { argsIn, expand, GIVEN } from './expand.ts'

export interface Plan {
  /** References as they stand in the file, each once. */
  readonly bases: readonly string[]
  /** The file with these names in place of the references, in their order. */
  dockerfile(names: readonly string[]): string
}

export interface PlanOptions {
  /** What the file is called in messages. */
  readonly name: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly target?: string | undefined
  /** Whether ADD may fetch what an address names. */
  readonly fetches: boolean
}

type Piece = string | { readonly base: number }

/** What follows the stage that is asked for is left out. */
export function planBuild({ joiner, instructions }: Dockerfile, options: PlanOptions): Plan {
  const { name } = options
  const values = new Map(Object.entries(GIVEN))
  const bases: string[] = []
  const stages: string[] = []
  const pieces: Piece[] = joiner === '\\' ? [] : [`# escape=${joiner}\n`]
  const baseOf = (reference: string): Piece => {
    if (!bases.includes(reference)) bases.push(reference)
    return { base: bases.indexOf(reference) }
  }
  for (const instruction of instructions) {
    const { word, rest } = instruction
    if (word === 'FROM') {
      if (isReached(stages, options.target)) break
      const { image, stage } = readFrom(name, instruction, values)
      const isOther = image !== 'scratch' && !stages.includes(image.toLowerCase())
      pieces.push('FROM ', isOther ? baseOf(image) : image, stage === undefined ? '\n' : ` AS ${stage}\n`)
      stages.push((stage ?? '').toLowerCase())
      continue
    }
    if (stages.length === 0) {
      if (word !== 'ARG') throw wrong(name, instruction.line, `has ${word}, and only ARG may stand in front of the first FROM`)
      for (const { name: arg, value } of argsIn(rest)) {
        const given = options.buildArgs[arg] ?? (value === undefined ? undefined : expand(value, values))
        if (given !== undefined) values.set(arg, given)
      }
    }
    if (word === 'ONBUILD') refuseLater(name, instruction, options.fetches)
    if (word === 'ADD') refuseFetch(name, instruction, options.fetches)
    // The stage that is being made is none for the engine yet: an image of that name is meant.
    const from = word === 'COPY' || word === 'ADD' ? sourceImage(name, instruction, stages.slice(0, -1)) : undefined
    if (from === undefined) pieces.push(`${word} ${rest}\n`)
    else pieces.push(`${word} ${from.before}`, baseOf(from.image), `${from.after}\n`)
  }
  if (stages.length === 0) throw wrong(name, 1, 'begins a file without FROM')
  if (options.target !== undefined && !isReached(stages, options.target))
    throw wrong(name, 1, `begins a file that has no stage ${options.target}`, 'name a stage of the Dockerfile')
  return {
    bases,
    dockerfile: names => pieces.map(piece => (typeof piece === 'string' ? piece : (names[piece.base] ?? ''))).join(''),
  }
}

/** A stage is named by its name or its number. */
function isReached(stages: readonly string[], target: string | undefined): boolean {
  if (target === undefined) return false
  const at = stages.indexOf(target.toLowerCase())
  return at >= 0 || (/^\d+$/.test(target) && Number(target) < stages.length)
}

function readFrom(
  name: string,
  { line, rest }: Instruction,
  values: ReadonlyMap<string, string>,
): { image: string; stage: string | undefined } {
  const words = rest.split(/\s+/).filter(Boolean)
  while (words[0]?.startsWith('--')) {
    const flag = expand(words.shift() ?? '', values)
    const platform = /^--platform=(.*)$/.exec(flag)?.[1]
    if (platform === undefined) throw wrong(name, line, `has an unknown flag ${flag}`)
    if (!['', 'linux', `linux/${ARCHITECTURE}`, ARCHITECTURE].includes(platform))
      throw wrong(name, line, `asks for ${platform}, and this machine is linux/${ARCHITECTURE}`)
  }
  const [image = '', as, stage, ...more] = words
  const expanded = expand(image.replace(/^(["'])(.*)\1$/, '$2'), values)
  if (expanded === '') throw wrong(name, line, `starts from nothing: ${image || 'FROM'} is empty`, 'give it with --build-arg')
  const isWhole = as === undefined || (as.toUpperCase() === 'AS' && stage !== undefined && more.length === 0)
  if (!isWhole || /["'\\`$]/.test(expanded) || (stage !== undefined && !/^[a-zA-Z][\w.-]*$/.test(stage)))
    throw wrong(name, line, 'is not FROM IMAGE or FROM IMAGE AS NAME')
  return { image: expanded, stage }
}
