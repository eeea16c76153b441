// Who may import what. The first row whose `files` is a prefix of the importing file decides.
// A target is a path in the repository, `node:*`, or the name of an npm package; `may` lists prefixes of targets.
// A file may always import what its own row covers.

export type Boundary = { files: string; may: string[]; because: string; typesOnly?: string[] }

const CONTRACT = 'packages/contract/src'
const DAEMON = 'packages/daemon/src'

export const BOUNDARIES: Boundary[] = [
  {
    files: `${CONTRACT}/`,
    may: ['zod'],
    because: 'the contract is data that every part, browsers included, can load: zod and nothing else',
  },
  {
    files: 'packages/sdk/src/node/',
    may: ['packages/sdk/src/', 'node:', `${CONTRACT}/tables.ts`],
    because: 'the Node half of the sdk has no dependencies at run time',
  },
  {
    files: 'packages/sdk/src/',
    may: [`${CONTRACT}/tables.ts`],
    because: 'the sdk runs in browsers and has no dependencies, its types included: zod-free tables, and nothing of Node',
  },
  {
    files: 'packages/cli/',
    may: [
      'packages/cli/',
      'packages/sdk/',
      `${CONTRACT}/`,
      `${DAEMON}/main.ts`,
      `${DAEMON}/doctor/doctor.ts`,
      'node:',
      '@balena/dockerignore',
      'tar-stream',
      'yaml',
      'zod',
    ],
    because: 'the command line is built on the sdk; of the daemon it sees only its exported entry points',
  },
  {
    files: `${DAEMON}/backends/docker/`,
    may: [
      `${DAEMON}/backends/`,
      `${DAEMON}/lib/`,
      `${DAEMON}/runner-link/runner-socket.ts`,
      `${DAEMON}/layers/`,
      `${CONTRACT}/`,
      'node:',
      'dockerode',
      'tar-stream',
      'zod',
    ],
    because: 'a backend makes machines: it knows no other backend, no http, no store, no session',
  },
  {
    files: `${DAEMON}/backends/oci/`,
    may: [
      `${DAEMON}/backends/`,
      `${DAEMON}/data-dir/disk-policy.ts`,
      `${DAEMON}/lib/`,
      // The class of socket decides how a file's body is buffered on its way; it knows nothing of the protocol.
      `${DAEMON}/runner-link/runner-socket.ts`,
      `${DAEMON}/layers/`,
      `${CONTRACT}/`,
      'node:',
      'zod',
    ],
    because: 'a backend makes machines: it knows no other backend, no http, no store, no session',
  },
  {
    files: `${DAEMON}/backends/`,
    may: [
      `${DAEMON}/backends/`,
      `${DAEMON}/data-dir/disk-policy.ts`,
      `${DAEMON}/lib/`,
      `${DAEMON}/layers/`,
      `${DAEMON}/runner-link/`,
      `${CONTRACT}/`,
      'node:',
      'tar-stream',
      'vitest',
      'zod',
    ],
    because: 'what backends share is the interface, the conformance suite and the test double',
  },
  {
    files: `${DAEMON}/layers/`,
    may: [`${CONTRACT}/`, 'node:', 'tar-stream', 'zod'],
    because: 'layers are bytes with a digest: what they are part of, and who starts from them, is known above',
  },
  {
    files: `${DAEMON}/runner-link/`,
    may: [`${DAEMON}/lib/`, `${CONTRACT}/`, 'node:'],
    because: 'the runner protocol is spoken over any byte stream and knows nothing of who asks',
  },
  {
    files: `${DAEMON}/store/`,
    may: [`${CONTRACT}/`, 'node:', 'kysely', 'better-sqlite3', 'mysql2'],
    because: 'the store keeps rows; decisions are made in sessions/',
  },
  {
    files: `${DAEMON}/secrets/`,
    may: [`${DAEMON}/store/`, `${DAEMON}/data-dir/private-file.ts`, `${CONTRACT}/`, 'node:'],
    because: 'what is sealed and opened stands on its rows and its key file, and knows nothing of who asks',
  },
  {
    files: `${DAEMON}/data-dir/disk-policy.ts`,
    may: [`${DAEMON}/config/allowed-unenforced.ts`],
    typesOnly: [`${CONTRACT}/`],
    because: 'sessions, images and backends share one disk: what divides it imports none of them',
  },
  {
    files: `${DAEMON}/lib/`,
    may: ['node:', 'zod'],
    because: 'lib holds general parts that know nothing of Sandglass',
  },
  {
    files: `${DAEMON}/images/`,
    may: [
      `${DAEMON}/data-dir/disk-policy.ts`,
      `${DAEMON}/lib/`,
      `${DAEMON}/layers/`,
      `${DAEMON}/store/`,
      `${CONTRACT}/`,
      'node:',
      'tar-stream',
      'zod',
    ],
    typesOnly: [`${DAEMON}/backends/backend.ts`, `${DAEMON}/log.ts`],
    because: 'images come and go by themselves: sessions stand on them, never the other way',
  },
  {
    files: `${DAEMON}/sessions/`,
    may: [
      `${DAEMON}/backends/backend.ts`,
      `${DAEMON}/backends/isolation/open-files.ts`,
      `${DAEMON}/backends/machine/refusals.ts`,
      `${DAEMON}/config/allowed-unenforced.ts`,
      `${DAEMON}/data-dir/disk-policy.ts`,
      `${DAEMON}/images/`,
      `${DAEMON}/lib/`,
      `${DAEMON}/runner-link/`,
      `${DAEMON}/secrets/encryption.ts`,
      `${DAEMON}/store/`,
      `${DAEMON}/log.ts`,
      `${CONTRACT}/`,
      'node:',
      'pino',
      'prom-client',
      'zod',
    ],
    typesOnly: [`${DAEMON}/data-dir/reserved-space.ts`],
    because: 'the verbs stand on the interface, the link and the store; http stands on them, never the other way',
  },
  {
    files: `${DAEMON}/http/`,
    may: [
      `${DAEMON}/sessions/`,
      `${DAEMON}/images/`,
      `${DAEMON}/lib/`,
      `${DAEMON}/secrets/stored.ts`,
      // A key that makes a request safe to repeat belongs to the request, and so does the row that remembers it.
      `${DAEMON}/store/idempotency.ts`,
      `${DAEMON}/data-dir/lock.ts`,
      // Which errors mean a full disk is known where the disk is.
      `${DAEMON}/data-dir/reserved-space.ts`,
      `${DAEMON}/log.ts`,
      `${CONTRACT}/`,
      'node:',
      'fastify',
      '@fastify/',
      'pino',
      'prom-client',
      'zod',
      'ws',
    ],
    typesOnly: [`${DAEMON}/store/tables.ts`],
    because: 'http turns routes into calls of the verbs; it sees no backend and no row',
  },
  {
    files: `${DAEMON}/config/`,
    may: [`${CONTRACT}/`, 'node:', 'yaml', 'zod'],
    because: 'configuration is read once, by itself, before anything else exists',
  },
  {
    files: `${DAEMON}/data-dir/`,
    may: [`${CONTRACT}/`, 'node:', 'better-sqlite3'],
    because: 'the data folder is opened and locked before anything is read from it',
  },
  {
    files: `${DAEMON}/`,
    may: [`${DAEMON}/`, `${CONTRACT}/`, 'node:', 'pino', 'fastify', 'prom-client'],
    because: 'the files at the top of the daemon wire the rest together',
  },
  {
    files: 'examples/',
    may: ['packages/sdk/', 'node:'],
    because: 'an example shows what a user can do, and a user has the sdk',
  },
  {
    files: 'bench/',
    may: ['bench/', 'packages/sdk/', `${CONTRACT}/`, 'node:'],
    because: 'a benchmark measures what a user gets',
  },
  {
    files: 'tools/',
    may: ['tools/', 'bench/', 'packages/', 'test/', 'node:', 'zod', 'vitest'],
    because: 'the tools read every part; nothing imports them',
  },
]

/** Imported by nobody outside their own folder, tests aside. */
export const ENTRY_POINTS = ['tools/', 'test/', 'bench/', 'examples/']
