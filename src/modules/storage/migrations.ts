/** The tables of uploads and tasks. They run after the schemas have theirs. */
import type { Migration } from '../../kernel/database/migrate.ts';

/**
 * Bytes on their way. A row is committed before the first byte is written and names the place, so that whatever a
 * crash leaves on the store is known; it goes in the transaction that makes these bytes the content of the file.
 * `kind`: `create` for a file that is not there yet, `replace` for new content, `move` for a copy in another bucket.
 * `signed`: somebody has an address to send the bytes to, so they may be there without our having seen it.
 */
const uploads = `
  create table penstock.storage_uploads (
    id uuid primary key,
    file_id uuid not null,
    kind text not null,
    signed boolean not null,
    bucket text not null,
    object_key text not null,
    generation integer not null,
    size bigint,
    mime_type text,
    caller text not null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    unique (bucket, object_key)
  );
  create index storage_uploads_by_end on penstock.storage_uploads (expires_at);
  create index storage_uploads_of_file on penstock.storage_uploads (file_id);
`;

/**
 * Uploads that are continued, over many requests and nodes. `id` is also that of the file they become; "offset" are
 * the bytes that are safe: those of `parts`, and `tail` bytes that are too few for a part yet and lie in an object of
 * their own. Who writes holds the row for a while (`lock_token`, `locked_until`), not a connection.
 */
const resumable = `
  create table penstock.storage_resumable (
    id uuid primary key,
    caller text not null,
    upload_id uuid not null,
    tail_upload_id uuid not null,
    bucket text not null,
    object_key text not null,
    size bigint not null,
    "offset" bigint not null default 0,
    tail bigint not null default 0,
    multipart text,
    parts jsonb not null default '[]',
    wish jsonb not null,
    metadata jsonb,
    file_id uuid,
    lock_token uuid,
    locked_until timestamptz(3),
    lock_wanted boolean not null default false,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  );
  create index storage_resumable_by_end on penstock.storage_resumable (expires_at);
`;

/** Long work that goes on in slices: `position` is where the next slice begins. */
const tasks = `
  create table penstock.storage_tasks (
    id uuid primary key,
    kind text not null,
    state text not null,
    input jsonb not null,
    progress jsonb not null,
    position jsonb,
    error text,
    created_by text not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    finished_at timestamptz(3)
  );
  create index storage_tasks_unfinished on penstock.storage_tasks (kind) where finished_at is null;
  create index storage_tasks_by_time on penstock.storage_tasks (created_at desc, id desc);
`;

/** Only one slice of a task at a time, and not for ever. */
const taskLeases = `
  alter table penstock.storage_tasks add column lease uuid, add column lease_until timestamptz(3),
    add column attempts integer not null default 0;
`;

/** Files that were deleted and may come back: what their documents said. */
const trash = `
  create table penstock.storage_trash (
    id uuid primary key,
    name text not null,
    folder text not null,
    container text not null,
    size bigint not null,
    mime_type text,
    owner text,
    bucket text not null,
    object_key text not null,
    rest jsonb not null,
    deleted_by text not null,
    deleted_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  );
  create index storage_trash_by_end on penstock.storage_trash (expires_at);
  create index storage_trash_of_owner on penstock.storage_trash (owner, deleted_at desc);
  create index storage_trash_of_container on penstock.storage_trash (container);
  create index storage_trash_by_place on penstock.storage_trash (bucket, object_key);
`;

/** Links that are counted and can be taken back; only hashes of their secrets. */
const links = `
  create table penstock.storage_links (
    id uuid primary key,
    file_id uuid not null,
    token_hash text not null unique,
    download boolean not null,
    max_uses integer,
    uses integer not null default 0,
    created_by text not null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    last_used_at timestamptz(3)
  );
  create index storage_links_of_file on penstock.storage_links (file_id);
  create index storage_links_by_end on penstock.storage_links (expires_at);
`;

/** For whom it was made: whether it still may be given is asked in the same scope. */
const linkScopes = 'alter table penstock.storage_links add column scope text';

/** The same of addresses that uploads are sent to, which also end with the session. */
const uploadMakers =
  'alter table penstock.storage_uploads add column scope text, add column session_id uuid';

/** An upload that is being continued has room for all of it meanwhile. */
const claims =
  'alter table penstock.storage_resumable add column claimed boolean not null default false';

/** Stores that files lie on: the one that is configured, and those of before that still hold some. */
const stores = `
  create table penstock.storage_stores (
    id text primary key,
    fingerprint text not null unique,
    settings text not null,
    created_at timestamptz(3) not null default now()
  );
`;

/** What containers have grown by and do not say yet: changes of one container do not wait for each other. */
const growth = `
  create table penstock.storage_growth (
    container text not null,
    bytes bigint not null,
    files integer not null
  );
  create index storage_growth_of_container on penstock.storage_growth (container);
`;

/** Files of before say by which folders and containers rights reach them, and who owns them. */
const rights = `
  update "app"."File" f set "uri" = '/storage/getFileUrl/' || f."_id"::text,
    "containerId" = (select c."_id" from "app"."_StorageContainer" c where c."name" = f."container"),
    "folderIds" = array(select d."_id" from "app"."_StorageFolder" d
      where d."container" = f."container" and d."name" <> '/' and starts_with(f."folder", d."name") order by d."name")
    where f."uri" is null;
  do $$ begin
    if to_regclass('penstock.tuples') is not null then
      insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
      select f."_id", split_part(f."owner", ':', 1), split_part(f."owner", ':', 2), 'owner', 'File', f."_id"::text
      from "app"."File" f where f."owner" like '%:%' on conflict do nothing;
    end if;
  end $$;
`;

/** What the files of each owner need, beside what is still to be added; of files in the trash too. */
const owners = `
  alter table penstock.storage_growth alter column container drop not null, add column owner text;
  create table penstock.storage_owners (
    owner text primary key,
    bytes bigint not null,
    files bigint not null
  );
  insert into penstock.storage_owners (owner, bytes, files)
  select owner, sum(bytes), count(*) from (
    select "owner" as owner, "size" as bytes from "app"."File" where "generation" > 0 and "owner" is not null
    union all select owner, size from penstock.storage_trash where owner is not null) f group by owner;
`;

/** Which folder each node sees that keeps files on a disk: the mark of it (services/node-folders.ts). */
const folders = `
  create table penstock.storage_folders (
    node_id text primary key,
    mark text not null
  );
`;

/** What somebody has deleted that was not theirs alone. */
const deleters = `
  create index storage_trash_of_deleter on penstock.storage_trash (deleted_by);
`;

/** What a user has begun to upload, where there is a quota. */
const unfinished = `
  create index storage_resumable_of_caller on penstock.storage_resumable (caller) where file_id is null;
`;

export const migrations: readonly Migration[] = [
  { id: '0001-uploads', run: async (database) => void (await database.query({ text: uploads })) },
  { id: '0002-tasks', run: async (database) => void (await database.query({ text: tasks })) },
  {
    id: '0010-resumable-uploads',
    run: async (database) => void (await database.query({ text: resumable })),
  },
  {
    id: '0003-task-leases',
    run: async (database) => void (await database.query({ text: taskLeases })),
  },
  { id: '0011-trash', run: async (database) => void (await database.query({ text: trash })) },
  { id: '0012-links', run: async (database) => void (await database.query({ text: links })) },
  { id: '0013-stores', run: async (database) => void (await database.query({ text: stores })) },
  {
    id: '0015-rights-on-files',
    run: async (database) => void (await database.query({ text: rights })),
  },
  { id: '0016-growth', run: async (database) => void (await database.query({ text: growth })) },
  { id: '0017-owners', run: async (database) => void (await database.query({ text: owners })) },
  { id: '0018-folders', run: async (database) => void (await database.query({ text: folders })) },
  {
    id: '0019-unfinished-uploads',
    run: async (database) => void (await database.query({ text: unfinished })),
  },
  {
    id: '0020-trash-by-deleter',
    run: async (database) => void (await database.query({ text: deleters })),
  },
  {
    id: '0021-scopes-of-links',
    run: async (database) => void (await database.query({ text: linkScopes })),
  },
  {
    id: '0022-makers-of-uploads',
    run: async (database) => void (await database.query({ text: uploadMakers })),
  },
  {
    id: '0023-claims-of-uploads',
    run: async (database) => void (await database.query({ text: claims })),
  },
];
