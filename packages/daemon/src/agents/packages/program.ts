// Where the program of an agent is in a sandbox.
import { AGENTS_FOLDER, type AgentName } from '@sandglass/contract'
import { platformPackage } from './table.ts'

export const agentFolder = (agent: AgentName): string => `${AGENTS_FOLDER}/${agent}`

/** The path of the program in a sandbox. */
export const agentProgram = (agent: AgentName): string => `${agentFolder(agent)}/bin/${agent}`

/** Folders in a sandbox that belong into the PATH of the agent. */
export function agentToolFolders(agent: AgentName): string[] {
  const { tools } = platformPackage(agent)
  return tools === null ? [] : [`${agentFolder(agent)}/${tools}`]
}
