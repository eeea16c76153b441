// Schema 7, in SQL that SQLite and MariaDB both accept. Later schemas are steps in migrations.ts that change this one.
//
// SQLite derives a column's affinity from the type names: varchar and mediumtext are text, bigint is an integer, double is a real,
// mediumblob is a blob. Text in an index has a length, because MariaDB limits an index entry to 3072 bytes and a character takes four.
// Times are milliseconds since the epoch.

/** A top-level table belongs to a tenant: its names are unique within the tenant. */
const TENANT = "tenant varchar(64) not null default 'default'"

/** Name and columns of every table; a table comes after those it refers to. */
export const TABLES: readonly (readonly [name: string, columns: string])[] = [
  ['meta', 'name varchar(64) not null primary key, value mediumtext not null'],
  // Numbers that count up and are taken inside a transaction: their order is the order of the commits.
  ['sequences', 'name varchar(64) not null primary key, value bigint not null'],
  [
    'sessions',
    `id varchar(64) not null primary key, ${TENANT}, name varchar(64) not null, live_name varchar(64),
    template_id varchar(64) not null, image mediumtext not null, image_id varchar(128), backend varchar(64) not null,
    container_id mediumtext, status varchar(32) not null, is_final bigint not null, reason varchar(64) not null,
    error_message mediumtext, limit_hit mediumtext, mode varchar(32) not null, agent_id mediumtext, cwd mediumtext not null,
    cpu_cores double not null, memory_mb bigint not null, disk_mb bigint not null, pids_limit bigint not null, resizing mediumtext,
    network varchar(32) not null, runtime mediumtext, nested_virt bigint not null, mounts mediumtext not null,
    readonly_rootfs bigint not null, unenforced mediumtext not null, env_names mediumtext not null, env_sealed mediumblob,
    labels mediumtext not null, ttl_seconds bigint, on_expiry varchar(32) not null, timeout_sec bigint,
    created_at bigint not null, started_at bigint, last_activity_at bigint not null, expires_at bigint, terminated_at bigint,
    delete_at bigint`,
  ],
  [
    'session_labels',
    `session_id varchar(64) not null, name varchar(64) not null, value varchar(256) not null,
    primary key (name, value, session_id), foreign key (session_id) references sessions (id) on delete cascade`,
  ],
  // Totals of lists come from here, so that a total does not scan ended sessions.
  ['session_counts', `${TENANT}, status varchar(32) not null, n bigint not null, primary key (tenant, status)`],
  [
    'events',
    `id bigint not null primary key, ${TENANT}, resource_kind varchar(32) not null, resource_id varchar(128) not null,
    type varchar(64) not null, status varchar(32) not null, reason varchar(64) not null, error_message mediumtext,
    created_at bigint not null`,
  ],
  [
    'idempotency',
    `${TENANT}, \`key\` varchar(128) not null, route varchar(256) not null, request_hash varchar(64) not null,
    resource_kind varchar(32) not null, resource_id varchar(128) not null, response mediumtext, created_at bigint not null,
    primary key (tenant, \`key\`, route)`,
  ],
  [
    'images',
    `${TENANT}, id varchar(128) not null, manifest_digest varchar(128) not null, source varchar(32) not null,
    architecture varchar(64) not null, config mediumtext not null, layers mediumtext not null, size_bytes bigint not null,
    created_at bigint not null, last_used_at bigint not null, primary key (tenant, id)`,
  ],
  [
    'image_references',
    `${TENANT}, reference varchar(640) not null, image_id varchar(128) not null, resolved_at bigint not null,
    primary key (tenant, reference), foreign key (tenant, image_id) references images (tenant, id) on delete cascade`,
  ],
  [
    'image_builds',
    `${TENANT}, \`key\` varchar(128) not null, image_id varchar(128) not null, built_at bigint not null,
    primary key (tenant, \`key\`), foreign key (tenant, image_id) references images (tenant, id) on delete cascade`,
  ],
  [
    'secrets',
    `${TENANT}, name varchar(128) not null, ciphertext mediumblob not null, nonce mediumblob not null,
    created_at bigint not null, updated_at bigint not null, primary key (tenant, name)`,
  ],
]

const INDEXES: readonly string[] = [
  // Both engines allow any number of nulls in a unique index, so ended sessions do not take part.
  'unique index sessions_live_name on sessions (tenant, live_name)',
  'index sessions_name on sessions (tenant, name, created_at)',
  'index sessions_page on sessions (tenant, created_at, id)',
  // Serves two queries: the list of one tenant's sessions, and all sessions that have not ended, for recovery.
  'index sessions_live_page on sessions (is_final, tenant, created_at, id)',
  'index sessions_status_page on sessions (tenant, status, created_at, id)',
  // The reaper works for all tenants.
  'index sessions_expires on sessions (expires_at)',
  'index sessions_delete on sessions (delete_at)',
  'index sessions_image on sessions (tenant, image_id)',
  'index session_labels_session on session_labels (session_id)',
  'index events_kind on events (tenant, resource_kind, id)',
  'index events_resource on events (tenant, resource_kind, resource_id, id)',
  'index idempotency_age on idempotency (created_at)',
  'index idempotency_resource on idempotency (tenant, resource_kind, resource_id)',
  'index images_page on images (tenant, created_at, id)',
  'index image_references_image on image_references (tenant, image_id)',
  'index image_builds_image on image_builds (tenant, image_id)',
  'index image_builds_age on image_builds (tenant, built_at)',
]

/** Safe to repeat: MariaDB cannot roll back a `create table`, so a crash may leave only some of the tables. */
export function createStatements(tableOptions: string): string[] {
  return [
    ...TABLES.map(([name]) => createTable(name, tableOptions)),
    ...INDEXES.map(index => `create ${index.replace('index ', 'index if not exists ')}`),
  ]
}

export function createTable(table: string, tableOptions: string): string {
  const columns = TABLES.find(([name]) => name === table)?.[1]
  return `create table if not exists ${table} (${columns}) ${tableOptions}`
}
