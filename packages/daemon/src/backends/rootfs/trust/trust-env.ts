// Variables that lead programs with their own certificates or their own settings to the certificate authority's.

/** The certificate authority alone, and public roots with it. The paths are the same in every sandbox. */
export const CA_FILE = '/etc/ssl/sandglass/ca.pem'
export const BUNDLE_FILE = '/etc/ssl/sandglass/bundle.pem'

/** Variables for a file that replaces the certificates of a program. */
const BUNDLE_VARIABLES = [
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'AWS_CA_BUNDLE',
  'PIP_CERT',
  'CARGO_HTTP_CAINFO',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'CODEX_CA_CERTIFICATE',
]
/** Variables for a file that is added to them. Bun reads only the first certificate of the file. */
const CA_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'DENO_CERT']

/** The lowest priority: variables of the image and of the session win. */
export function trustEnv(): Readonly<Record<string, string>> {
  return {
    ...Object.fromEntries(BUNDLE_VARIABLES.map(name => [name, BUNDLE_FILE])),
    ...Object.fromEntries(CA_VARIABLES.map(name => [name, CA_FILE])),
    // There is no metadata service, and programs that look for it wait for seconds.
    AWS_EC2_METADATA_DISABLED: 'true',
    // Without a terminal, git waits for a name and a password when a server refuses it.
    GIT_TERMINAL_PROMPT: '0',
  }
}

/** The files of certificates that the environment of an image names in place of ours. */
export function certificateFilesIn(env: Readonly<Record<string, string>>): string[] {
  return [...BUNDLE_VARIABLES, ...CA_VARIABLES].flatMap(name => env[name] ?? [])
}
