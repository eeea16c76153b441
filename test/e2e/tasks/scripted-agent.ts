// An agent that does what its prompt says: a package with a bash script in the place of the program, for what no real agent does on request.
import { type ScriptedRegistry, scriptedRegistry } from '../../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'

const SESSION = '11111111-2222-3333-4444-555555555555'
const PROGRAM = `#!/bin/bash
init() { echo '{"type":"system","subtype":"init","session_id":"${SESSION}","model":"scripted"}'; }
say() { printf '{"type":"assistant","session_id":"${SESSION}","message":{"role":"assistant","content":[{"type":"text","text":"%s"}]}}\\n' "$1"; }
result() { printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"${SESSION}","num_turns":1,"duration_ms":1,"total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1}}\\n' "$1"; }
export -f init say result
script=$(cat)
eval "$script"
`

/** An npm registry whose claude is that script. */
export const bashRegistry = (): Promise<ScriptedRegistry> => scriptedRegistry(PROGRAM)
