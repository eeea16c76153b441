// Parses the output of a build: lines of JSON, in which the engine's own messages and the output of steps are one stream.
import { SandglassError } from '@sandglass/contract/tables'
import type { ImageBuild } from '../../image-builds.ts'

interface Message {
  readonly stream?: string
  readonly aux?: { readonly ID?: string }
  readonly error?: string
  readonly errorDetail?: { readonly code?: number; readonly message?: string }
  /** The error of a build that did not begin. */
  readonly message?: string
}

const STEP = /^Step (\d+)\/(\d+) : ([\s\S]*?)\n?$/
const IMAGE_ID = /^ ---> ([0-9a-f]{12})\n$/
const CACHED = /^ ---> Using cache\n$/
const PROGRESS = /^( ---> Running in |Removing intermediate container |Successfully built )[0-9a-f]{12}\n$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: how an engine colours what a step writes to stderr
const COLOUR = /\u001b\[(91|0)m/g
const LINE_BYTES = 1024 * 1024
const PIECE_CHARS = 8192
const LAST_LINES = 20
const MAX_IDS = 1000

type Listener = Pick<ImageBuild, 'name' | 'bases' | 'onStep' | 'onOutput'>

export class BuildOutput {
  /** Short ids of the images in the output. A step can print such lines, too, so the caller checks which of them exist. */
  readonly ids = new Set<string>()
  readonly #build: Listener
  readonly #names: readonly string[]
  readonly #last: string[] = []
  #rest: Buffer[] = []
  #text = ''
  #step: { step: number; steps: number; instruction: string } | null = null
  #id: string | undefined

  constructor(build: Listener, names: readonly string[]) {
    this.#build = build
    this.#names = names
  }

  read(piece: Buffer): void {
    let from = 0
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, from)) {
      const line = Buffer.concat([...this.#rest, piece.subarray(from, at)])
      this.#rest = []
      from = at + 1
      if (line.length > 1) this.#handle(JSON.parse(line.toString('utf8')) as Message)
    }
    this.#rest.push(piece.subarray(from))
    if (this.#rest.reduce((sum, part) => sum + part.length, 0) > LINE_BYTES)
      throw this.failure('a line of the engine’s output is too long', null)
  }

  /** Returns the id of the built image. */
  end(): string {
    this.#flush()
    if (this.#id === undefined) throw this.failure('the engine ended the build without an image', null)
    return this.#id
  }

  failure(why: string, exitCode: number | null): SandglassError {
    const { step = null, steps = null, instruction = null } = this.#step ?? {}
    const output = this.#last.slice(-LAST_LINES)
    return new SandglassError('IMAGE_BUILD_FAILED', {
      image: this.#build.name,
      step,
      steps,
      instruction,
      exit_code: exitCode,
      why: this.#withUserNames(why),
      output,
    })
  }

  #handle({ stream, aux, error, errorDetail, message }: Message): void {
    if (error !== undefined || message !== undefined) {
      this.#flush()
      throw this.failure(error ?? message ?? '', errorDetail?.code || null)
    }
    if (aux?.ID !== undefined) this.#id = aux.ID
    if (stream !== undefined) this.#handleText(stream)
  }

  #handleText(text: string): void {
    const [, step, steps, instruction] = STEP.exec(text) ?? []
    if (instruction !== undefined) {
      this.#flush()
      this.#last.length = 0
      this.#step = { step: Number(step), steps: Number(steps), instruction: this.#withUserNames(instruction) }
      this.#build.onStep({ ...this.#step, cached: false })
      return
    }
    const made = IMAGE_ID.exec(text)?.[1]
    if (made !== undefined && this.ids.size < MAX_IDS) this.ids.add(made)
    if (CACHED.test(text) && this.#step) this.#build.onStep({ ...this.#step, cached: true })
    if (made !== undefined || CACHED.test(text) || PROGRESS.test(text)) return
    this.#text += text.replaceAll(COLOUR, '')
    const end = this.#text.lastIndexOf('\n') + 1
    if (end > 0) this.#emit(this.#text.slice(0, end), this.#text.slice(end))
    else if (this.#text.length > PIECE_CHARS) this.#flush()
  }

  #flush(): void {
    if (this.#text !== '') this.#emit(`${this.#text}\n`, '')
  }

  #emit(text: string, rest: string): void {
    this.#text = rest
    if (text.trim() === '') return
    this.#build.onOutput(this.#withUserNames(text))
    this.#last.push(
      ...this.#withUserNames(text)
        .split('\n')
        .filter(line => line.trim() !== '')
        .slice(-LAST_LINES),
    )
    this.#last.splice(0, this.#last.length - LAST_LINES)
  }

  /** Replaces our temporary names by the names that the user wrote. */
  #withUserNames(text: string): string {
    return this.#names.reduce((shown, name, i) => shown.replaceAll(name, this.#build.bases[i]?.reference ?? name), text)
  }
}
