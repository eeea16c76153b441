// The last layer of a build, the same for every builder: an entrypoint for programs that run the image themselves. It sets IS_SANDBOX=1, leads
// programs to the certificate authority of the sandbox if there is one, and becomes the program that it is given.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Image } from '@sandglass/contract'
import { pack } from 'tar-stream'
import { findImage, recordBuild } from '../../store/images.ts'
import type { ImageContext } from '../context.ts'
import { digestOf, type ImageConfig, invalid } from '../manifest.ts'
import { digestsOf, layersOf } from '../store/image-row.ts'
import { addReferences, insertImage } from '../store/insert.ts'
import type { Built } from './build-layer.ts'
import type { Settings } from './session/stage.ts'
import { imageOf } from './session/step-cache.ts'
import { layerLimits, storeLayer } from './session/store-layer.ts'

/** At the root: a layer would have to repeat the folders above it. */
const PATH = 'sandglass-entrypoint'
const SANDBOX = 'IS_SANDBOX=1'
const BUNDLE_VARIABLES = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'PIP_CERT']

/** Variables that are set stay as they are. A system with update-ca-certificates trusts the authority everywhere; without the right to it, that fails. */
const SCRIPT = `#!/bin/sh
set -eu
export ${SANDBOX}
ca=/etc/ssl/sandglass/ca.pem
bundle=/etc/ssl/sandglass/bundle.pem
if [ -r "$ca" ]; then
  export NODE_EXTRA_CA_CERTS="\${NODE_EXTRA_CA_CERTS:-$ca}"
  if [ -r "$bundle" ]; then
${BUNDLE_VARIABLES.map(name => `    export ${name}="\${${name}:-$bundle}"`).join('\n')}
  fi
  if command -v update-ca-certificates >/dev/null 2>&1; then
    update-ca-certificates >/dev/null 2>&1 || true
  fi
fi
unset ca bundle
[ "$#" -gt 0 ] || set -- /bin/sh
exec "$@"
`

type Whole = ImageConfig & { config?: Settings | null; history?: unknown }

/** The image with the layer. The same image has the same result, which is stored once. */
export async function addEntrypoint(context: ImageContext, { image, builtAt }: Built, signal: AbortSignal): Promise<Image> {
  const { store, images } = context
  const [row, config] = [await findImage(store, image.id), await images.blobs.read(image.id)]
  if (!row || !config) throw invalid(image.id, 'its configuration is missing')
  const whole = JSON.parse(config.toString('utf8')) as Whole
  if (whole.config?.Entrypoint?.[0] === `/${PATH}`) return image
  const limits = layerLimits(context, image.id, layersOf(row))
  const pins = [images.pins.pin(digestsOf(row))]
  try {
    const pin = (digest: string) => void pins.push(images.pins.pin([digest]))
    const layer = await storeLayer(context, image.id, entrypointTar(), limits, pin, signal)
    if (layer === null) throw invalid(image.id, 'the layer of the entrypoint is empty')
    const changed = Buffer.from(JSON.stringify(withEntrypoint(whole, layer.diff_id)))
    pin(digestOf(changed))
    const made =
      (await addReferences(context, changed, [])) ??
      (await insertImage(context, {
        ...imageOf(changed, { layers: [...layersOf(row), layer] }),
        source: 'build',
        references: [],
      }))
    // Without a name, it stays as long as the build that it belongs to.
    await recordBuild(store, { key: entrypointKey(image.id), image_id: made.id, built_at: builtAt })
    return made
  } finally {
    for (const unpin of pins) unpin()
  }
}

const entrypointKey = (id: string): string =>
  createHash('sha256')
    .update(JSON.stringify(['entrypoint', SCRIPT, id]))
    .digest('hex')

function entrypointTar(): Readable {
  const out = pack()
  out.entry({ name: PATH, mode: 0o755, uid: 0, gid: 0, mtime: new Date(0) }, SCRIPT)
  out.finalize()
  return Readable.from(out)
}

function withEntrypoint(whole: Whole, diffId: string): object {
  const { Env = [], Entrypoint, ...settings } = whole.config ?? {}
  const env = [...(Env ?? []).filter(line => !line.startsWith('IS_SANDBOX=')), SANDBOX]
  return {
    ...whole,
    config: { ...settings, Env: env, Entrypoint: [`/${PATH}`, ...(Entrypoint ?? [])] },
    rootfs: { ...whole.rootfs, diff_ids: [...whole.rootfs.diff_ids, diffId] },
    // Tools compare its length with the number of layers.
    ...(Array.isArray(whole.history) ? { history: [...whole.history, { created_by: PATH }] } : {}),
  }
}
