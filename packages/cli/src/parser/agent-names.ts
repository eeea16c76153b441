// The value of -a: names of agents, also several of them separated by commas.
import { AGENTS, type AgentName } from '@sandglass/contract/tables'
import type { Flag, Values } from '../command.ts'
import { choiceText, suggestion, texts, usage } from './parse.ts'

export const AGENT_FLAG = {
  type: 'string',
  short: 'a',
  multiple: true,
  value: 'AGENT',
  suggested: AGENTS,
  about: 'coding agent: claude, codex or opencode',
} as const satisfies Flag

/** The agents that are named, each once; empty without the flag. */
export function agentNames(value: Values[string]): AgentName[] {
  const words = texts(value)
    .flatMap(word => word.split(','))
    .map(word => word.trim())
  return [...new Set(words.map(agentName))]
}

export function agentName(word: string): AgentName {
  const known = AGENTS.find(name => name === word)
  if (known !== undefined) return known
  const meant = suggestion(word.toLowerCase(), AGENTS)
  throw usage(
    `${word === '' ? 'the agent is missing' : `${word} is not an agent`}: use ${choiceText(AGENTS)}${meant ? `; did you mean ${meant}?` : ''}`,
  )
}
