// `sandglass agent install`.
import { AGENT_VERSION } from '@sandglass/contract/tables'
import type { InstallProgress } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { Progress } from '../../copy/progress.ts'
import { toJson } from '../../output/show-session.ts'
import { agentName } from '../../parser/agent-names.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, print, quiet }: Context): Promise<number> {
  const agent = agentName(oneArgument(input, 'AGENT'))
  const version = text(input.flags.version)
  if (version !== undefined && version !== 'latest' && !AGENT_VERSION.test(version))
    throw usage(`--version ${version} is not a version: write one such as 1.2.3, or latest`)
  const client = await connect()
  using progress = new Progress({ isQuiet: quiet })
  let known = 0
  const onProgress = ({ step, version: wanted, bytes, totalBytes }: InstallProgress) => {
    if (step !== 'download') return
    if (known === 0) progress.begin(`${agent} ${wanted}`, totalBytes ?? undefined)
    progress.add(Math.max(0, bytes - known))
    known = Math.max(known, bytes)
  }
  const done = await client.agents.install(agent, { version, onProgress })
  progress.clear()
  print(json ? toJson(done) : `${agent}  ${done.version}\n`)
  return 0
}
