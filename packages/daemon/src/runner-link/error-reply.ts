// The error that an error message of the runner stands for.
import { SandglassError } from '@sandglass/contract/tables'
import type { Message } from './wire.ts'

export function errorReply(message: Message): SandglassError {
  const { code, message: text, detail } = message
  return SandglassError.fromWire({
    code: typeof code === 'string' ? code : 'INTERNAL',
    message: typeof text === 'string' ? text : 'the runner gave no reason',
    detail: typeof detail === 'object' && detail !== null ? detail : {},
  })
}
