// The instructions that change the settings of an image and not its files.
import { posix } from 'node:path'
import { LIMITS, SandglassError } from '@sandglass/contract'
import { type Instruction, invalidInstruction } from '../dockerfile/dockerfile.ts'
import { jsonForm, oneWord, pairsOf, wordsOf } from '../dockerfile/words.ts'
import { DEFAULT_SHELL, envOfStage, type Settings, type Stage, valuesOf } from './stage.ts'
import type { Setting } from './steps.ts'

export interface Source {
  /** File name in messages. */
  readonly name: string
  readonly escapeCharacter: string
}

/** Returns the stage after the instruction. For WORKDIR the caller makes the folder. */
export function applySetting(source: Source, stage: Stage, word: Setting, instruction: Instruction): Stage {
  const set = (change: Partial<Settings>): Stage => ({ ...stage, settings: { ...stage.settings, ...change } })
  const { rest } = instruction
  const { settings } = stage
  const values = valuesOf(stage)
  const words = () => jsonForm(rest) ?? wordsOf(rest, values, source.escapeCharacter)
  const one = () => oneWord(rest, values, source.escapeCharacter)
  switch (word) {
    case 'ENV':
      return set({ Env: withEnv(source, stage, instruction) })
    case 'LABEL':
      return set({ Labels: { ...settings.Labels, ...Object.fromEntries(pairs(source, stage, instruction)) } })
    case 'EXPOSE':
      return set({ ExposedPorts: { ...settings.ExposedPorts, ...named(words().map(port => portOf(source, instruction, port))) } })
    case 'VOLUME':
      return set({ Volumes: { ...settings.Volumes, ...named(words()) } })
    case 'STOPSIGNAL':
      return set({ StopSignal: one() })
    case 'USER':
      return set({ User: one() })
    case 'WORKDIR':
      return set({ WorkingDir: posix.resolve('/', settings.WorkingDir ?? '/', one()) })
    case 'SHELL':
      return set({ Shell: jsonForm(rest) ?? DEFAULT_SHELL })
    case 'CMD':
      return { ...set({ Cmd: command(stage, rest) }), hasOwnCmd: true }
    case 'ENTRYPOINT': {
      const { Cmd, ...others } = settings
      const kept = stage.hasOwnCmd && Cmd ? { ...others, Cmd } : others
      return { ...stage, settings: { ...kept, Entrypoint: command(stage, rest) } }
    }
  }
}

/** The argv of CMD, ENTRYPOINT or RUN. The shell form is a line for the shell of the image. */
export const command = ({ settings }: Stage, rest: string): string[] =>
  jsonForm(rest) ?? [...(settings.Shell ?? DEFAULT_SHELL), rest]

function withEnv(source: Source, stage: Stage, instruction: Instruction): string[] {
  const env = envOfStage(stage)
  // All values are expanded with the variables before this instruction.
  for (const [name, value] of pairs(source, stage, instruction)) env.set(name, value)
  const lines = [...env].map(([name, value]) => `${name}=${value}`)
  const size = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0)
  const { max } = LIMITS.image_env_bytes
  if (size > max) throw new SandglassError('IMAGE_TOO_LARGE', { image: source.name, what: 'bytes of environment', max })
  return lines
}

function pairs({ name, escapeCharacter }: Source, stage: Stage, { line, word, rest }: Instruction): [string, string][] {
  const found = pairsOf(rest, valuesOf(stage), escapeCharacter)
  if (found === null || found.some(([key]) => /[=\0]/.test(key)))
    throw invalidInstruction(name, line, `has a ${word} that is not NAME=VALUE`)
  return found
}

function portOf({ name }: Source, { line }: Instruction, port: string): string {
  if (!/^\d{1,5}(-\d{1,5})?(\/(tcp|udp|sctp))?$/i.test(port))
    throw invalidInstruction(name, line, `has EXPOSE ${port}, which is not a port`)
  return port.includes('/') ? port.toLowerCase() : `${port}/tcp`
}

const named = (names: readonly string[]): Record<string, object> => Object.fromEntries(names.map(name => [name, {}]))
