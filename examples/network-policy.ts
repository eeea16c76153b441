// A session that may reach one host: what it is refused, and the log of it.
import { connectLocal } from '@sandglass/sdk/node'

const client = connectLocal()

await client.policies.set('docs-only', {
  description: 'the documentation, and reading one API',
  domains: ['docs.example.com'],
  urlPrefixes: [{ host: 'api.example.com', path: '/v1/*', methods: ['GET'] }],
})
try {
  const { allowed, reason } = await client.policies.check('docs-only', 'https://api.example.com/v1/users', { method: 'DELETE' })
  console.log(allowed, reason)

  await using session = await client.createSession({ policies: ['docs-only'], ttlSeconds: 600 })
  const { output } = await session.exec('curl -s http://elsewhere.example.org/x')
  console.log(JSON.parse(output).error)

  for await (const { decision, method, url } of session.network.log({ follow: true, blocked: true })) {
    console.log(decision, method, url)
    break
  }
} finally {
  await client.policies.remove('docs-only')
}
