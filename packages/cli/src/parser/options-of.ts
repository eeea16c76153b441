import type { Command } from '../command.ts'

/** The flags that a command takes in this call: those of its first word, and those that belong to none. */
export function optionsOf({ options, completes }: Command, argv: readonly string[]): Command['options'] {
  const action = Array.isArray(completes) ? argv.find(word => completes.includes(word)) : undefined
  const isTaken = (only: string | undefined) => only === undefined || only === action
  return Object.fromEntries(Object.entries(options).filter(([, { only }]) => isTaken(only)))
}
