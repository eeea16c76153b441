// Handlers of health, readiness, metrics and OpenAPI.
import { openapi } from '@sandglass/contract'
import type { Api, Handlers } from '../api.ts'

export const healthHandlers = ({ context, version }: Api) => {
  let description: unknown
  return {
    healthz: () => ({ status: 'ok', version }),
    readyz: async ({ request }) => {
      const backends = await Promise.all(
        [...context.backends.values()].map(async backend => ({ name: backend.name, ...(await backend.probe()) })),
      )
      const isReady = backends.some(b => b.available)
      request.notReady = !isReady
      return {
        status: isReady ? 'ready' : 'not_ready',
        backends: backends.map(({ name, available, why }) => ({ name, available, why })),
      }
    },
    metrics: async () => ({
      headers: { 'content-type': context.metrics.registry.contentType },
      chunks: text(await context.metrics.registry.metrics()),
    }),
    openapi: () => {
      description ??= openapi(version)
      return description
    },
  } satisfies Partial<Handlers>
}

async function* text(content: string): AsyncGenerator<Uint8Array, void, undefined> {
  yield Buffer.from(content)
}
