// Reads the instructions that a build without an engine supports. Everything else is refused by its line before the build begins.
import { type Instruction, invalidInstruction } from '../dockerfile/dockerfile.ts'
import { jsonForm } from '../dockerfile/words.ts'

const SETTINGS = ['ENV', 'LABEL', 'EXPOSE', 'VOLUME', 'WORKDIR', 'USER', 'STOPSIGNAL', 'CMD', 'ENTRYPOINT', 'SHELL'] as const
export type Setting = (typeof SETTINGS)[number]

export type Step = { readonly instruction: Instruction } & (
  | { readonly kind: 'from' | 'arg' }
  | { readonly kind: 'setting'; readonly word: Setting }
  | { readonly kind: 'run'; readonly exec: readonly string[] | null; readonly line: string }
  | { readonly kind: 'copy'; readonly copy: CopyStep }
)

export interface CopyStep {
  readonly isAdd: boolean
  readonly from: string | null
  readonly chown: string | null
  readonly chmod: string | null
  /** The words after the flags: sources and the destination. From a JSON form, or as one text that is split when variables are known. */
  readonly words: readonly string[] | string
}

const FLAG = /^--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)/
const REFUSED: Readonly<Record<string, string>> = {
  ONBUILD: 'write the instruction into the Dockerfiles that use the image',
  HEALTHCHECK: 'remove it: nothing in a sandbox runs it',
  MAINTAINER: 'use LABEL',
}
const WITH_ENGINE = 'remove it, or build with a Docker engine (--builder docker)'

/** `name` is the file name in messages. */
export function readSteps(name: string, instructions: readonly Instruction[]): Step[] {
  return instructions.map(instruction => readStep(name, instruction))
}

function readStep(name: string, instruction: Instruction): Step {
  const { word, rest, line } = instruction
  if (word === 'FROM') return { instruction, kind: 'from' }
  if (word === 'ARG') return { instruction, kind: 'arg' }
  if (rest === '') throw invalidInstruction(name, line, `has ${word} without arguments`)
  if (word === 'RUN') return { instruction, kind: 'run', ...readRun(name, instruction) }
  if (word === 'COPY' || word === 'ADD') return { instruction, kind: 'copy', copy: readCopy(name, instruction) }
  const setting = SETTINGS.find(known => known === word)
  if (setting === undefined)
    throw invalidInstruction(
      name,
      line,
      `has ${word}, which a build without a Docker engine does not support`,
      REFUSED[word] ?? 'fix the Dockerfile',
    )
  if (setting === 'SHELL' && !jsonForm(rest)?.[0])
    throw invalidInstruction(name, line, 'has a SHELL that is not a list', 'write it as SHELL ["/bin/bash", "-c"]')
  return { instruction, kind: 'setting', word: setting }
}

function readRun(name: string, { line, rest }: Instruction): { exec: readonly string[] | null; line: string } {
  const flag = FLAG.exec(rest)?.[1]
  if (flag !== undefined) throw invalidInstruction(name, line, `has RUN --${flag}, which is not supported`, WITH_ENGINE)
  const exec = jsonForm(rest)
  if (exec?.length === 0) throw invalidInstruction(name, line, 'has a RUN without a program')
  return { exec, line: rest }
}

function readCopy(name: string, { line, word, rest }: Instruction): CopyStep {
  const flags = new Map<string, string>()
  let left = rest
  for (let found = FLAG.exec(left); found; found = FLAG.exec(left)) {
    const [whole, flag = '', value = ''] = found
    const isKnown = flag === 'chown' || flag === 'chmod' || (flag === 'from' && word === 'COPY')
    if (!isKnown || flags.has(flag))
      throw invalidInstruction(name, line, `has ${word} --${flag}, which is not supported`, WITH_ENGINE)
    flags.set(flag, value)
    left = left.slice(whole.length)
  }
  const words = jsonForm(left) ?? left
  if (words.length === 0) throw invalidInstruction(name, line, `has a ${word} without files`)
  if (word === 'ADD' && /(^|[\s"[])(https?|ftp|git|ssh):\/\/|(^|\s)git@/.test(left))
    throw invalidInstruction(name, line, 'has an ADD of a URL', 'download it with RUN curl, or add it to the build context')
  const of = (flag: string) => flags.get(flag) ?? null
  return { isAdd: word === 'ADD', from: of('from'), chown: of('chown'), chmod: of('chmod'), words }
}
