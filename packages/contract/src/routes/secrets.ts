// Routes of secrets.
import { z } from 'zod'
import { Ok } from '../schemas/primitives.ts'
import * as secrets from '../schemas/secrets.ts'
import type { RouteSchemas } from './schemas.ts'

const secretName = z.strictObject({ name: secrets.SecretName })

export const SECRETS_ROUTES = {
  putSecret: {
    summary: 'Store a secret, or replace the one of that name',
    params: secretName,
    body: secrets.SecretSpec,
    reply: secrets.Secret,
    errors: [],
  },
  listSecrets: { summary: 'List the names of secrets', query: secrets.SecretQuery, reply: secrets.SecretList, errors: [] },
  rotateSecret: {
    summary: 'Replace the value of a secret; running sessions use it at once',
    params: secretName,
    body: secrets.SecretRotation,
    reply: secrets.Secret,
    errors: ['SECRET_NOT_FOUND'],
  },
  deleteSecret: { summary: 'Remove a secret', params: secretName, reply: Ok, errors: ['SECRET_NOT_FOUND'] },
} as const satisfies Record<string, RouteSchemas>
