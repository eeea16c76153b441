-- A database as schema 4 left it.
CREATE TABLE meta (name text primary key, value text not null) strict;
CREATE TABLE sessions (
  id text primary key, name text not null, live_name text, template_id text not null, image text not null,
  backend text not null, container_id text, status text not null, is_final integer not null, reason text not null,
  error_message text, mode text not null, agent_id text, cwd text not null, cpu_cores real not null,
  memory_mb integer not null, disk_mb integer not null, pids_limit integer not null, network text not null,
  readonly_rootfs integer not null, unenforced text not null, env_names text not null, env_sealed blob,
  labels text not null, ttl_seconds integer not null, timeout_sec integer, created_at integer not null,
  started_at integer, last_activity_at integer not null, expires_at integer, terminated_at integer, delete_at integer
  , image_id text, runtime text, nested_virt integer not null default 0, mounts text not null default '[]') strict;
CREATE UNIQUE INDEX sessions_live_name on sessions (live_name) where live_name is not null;
CREATE INDEX sessions_name on sessions (name, created_at);
CREATE INDEX sessions_page on sessions (created_at, id);
CREATE INDEX sessions_live_page on sessions (is_final, created_at, id);
CREATE INDEX sessions_status_page on sessions (status, created_at, id);
CREATE INDEX sessions_expires on sessions (expires_at) where expires_at is not null;
CREATE INDEX sessions_delete on sessions (delete_at) where delete_at is not null;
CREATE TABLE session_labels (
  session_id text not null references sessions (id) on delete cascade, name text not null, value text not null,
  primary key (name, value, session_id)
  ) strict, without rowid;
CREATE INDEX session_labels_session on session_labels (session_id);
CREATE TABLE session_counts (status text primary key, n integer not null) strict, without rowid;
CREATE TRIGGER sessions_counted after insert on sessions begin
  insert into session_counts values (new.status, 1) on conflict (status) do update set n = n + 1; end;
CREATE TRIGGER sessions_uncounted after delete on sessions begin
  update session_counts set n = n - 1 where status = old.status; end;
CREATE TRIGGER sessions_recounted after update of status on sessions when new.status <> old.status begin
  update session_counts set n = n - 1 where status = old.status;
  insert into session_counts values (new.status, 1) on conflict (status) do update set n = n + 1; end;
CREATE TABLE events (
  id integer primary key autoincrement, session_id text not null references sessions (id) on delete cascade,
  type text not null, status text not null, reason text not null, error_message text, created_at integer not null
  ) strict;
CREATE INDEX events_session on events (session_id, id);
CREATE TABLE idempotency (
  key text not null, route text not null, request_hash text not null,
  session_id text references sessions (id) on delete cascade, response text, created_at integer not null,
  primary key (key, route)
  ) strict, without rowid;
CREATE INDEX idempotency_age on idempotency (created_at);
CREATE INDEX idempotency_session on idempotency (session_id);
CREATE TABLE images (
  id text primary key, manifest_digest text not null, source text not null, architecture text not null, config text not null,
  layers text not null, size_bytes integer not null, created_at integer not null, last_used_at integer not null
  ) strict;
CREATE TABLE image_references (
  reference text primary key, image_id text not null references images (id) on delete cascade, resolved_at integer not null
  ) strict, without rowid;
CREATE INDEX image_references_image on image_references (image_id);
CREATE TABLE secrets (
  name text primary key, ciphertext blob not null, nonce blob not null, created_at integer not null, updated_at integer not null
  ) strict;
CREATE TABLE image_builds (
  key text primary key, image_id text not null references images (id) on delete cascade, built_at integer not null
  ) strict, without rowid;
CREATE INDEX image_builds_image on image_builds (image_id);
CREATE INDEX image_builds_age on image_builds (built_at);
insert into meta values ('schema', '4');
