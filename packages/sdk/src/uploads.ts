import type { BodySource } from './transport/body.ts'
import type { Transport } from './transport/transport.ts'
import type { Cancel, UploadInfo } from './wire-types.ts'

/** Files and git bundles for tasks. The daemon keeps them for a day. */
export class Uploads {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Sends the content of one file. On Node, `fileBody(path)` sends a local file. */
  create(body: BodySource, { signal }: Cancel = {}): Promise<UploadInfo> {
    const headers = { 'content-type': 'application/octet-stream' }
    return this.#transport.json('createUpload', { raw: body, headers, signal })
  }
}
