/**
 * Several new files in one statement. Most of what the statement for one of them costs is the same for many: making it
 * ready, and the wait of its commit for the disk.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { outboxTable } from '../../../kernel/events/events.ts';
import type { OwnerColumn, RecordTuples } from '../../../kernel/permissions.ts';
import { levelsOf } from '../names.ts';
import type { FileRow, StoredContent } from './files.ts';
import { type NewFile, ownerParts, type WholeFile } from './new-file.ts';
import { statement } from './statement.ts';

/** As a row of the statement; the names are its columns. */
function rowOf(
  { file, upload, actor, payload, seen, inRecord }: WholeFile,
  tuples: RecordTuples | undefined,
) {
  const { id, content, metadata, folder } = file;
  const [ownerType, ownerId] = (!inRecord && ownerParts(file.owner)) || [];
  const said = inRecord ? (tuples?.columns(inRecord.owner) ?? []) : [];
  return {
    id,
    name: file.name,
    alias: file.alias,
    folder,
    levels: levelsOf(folder),
    container: file.container,
    seen_id: seen?.id,
    seen_version: seen?.version,
    size: content?.size,
    public: file.isPublic,
    type: content?.mimeType,
    // A text of its own, so that null is told from nothing.
    metadata: metadata === undefined ? undefined : JSON.stringify(metadata),
    expires: file.expiresAt,
    owner: file.owner,
    owner_type: ownerType,
    owner_id: ownerId,
    author: file.createdBy,
    bucket: content?.bucket,
    object_key: content?.objectKey,
    checksum: content?.checksum,
    etag: content?.etag,
    upload: upload.id,
    payload,
    actor,
    ...Object.fromEntries(said.map(({ name, value }) => [name, value])),
  };
}

/** Columns in which files say who owns them. */
type OwnerColumns = readonly Pick<OwnerColumn, 'name' | 'type'>[];

const inputOf = (
  columns: OwnerColumns,
) => `input as materialized (select * from jsonb_to_recordset($1::jsonb) as i(
  id uuid, name text, alias text, folder text, levels text[], container text, seen_id uuid, seen_version integer, size bigint, public boolean, type text, metadata text,
  expires timestamptz, owner text, owner_type text, owner_id text, author text, bucket text, object_key text, checksum text, etag text,
  upload uuid, payload jsonb, actor text${columns.map(({ name, type }) => `, ${identifier(name)} ${type}`).join('')}))`;

const folders = `array(select d."_id" from "app"."_StorageFolder" d where d."container" = i.container and d."name" = any(i.levels) order by d."name")`;

/** What is made: of files whose container is there and bounds nothing, whose folders are there and whose upload is not over. */
const partsOf = (columns: OwnerColumns, holds: string): readonly string[] => [
  inputOf(columns),
  `held as materialized (select h."_id", h."name", h."__v" from "app"."_StorageContainer" h
     where h."name" = any(array(select container from input)) and h."quota" is null and ${holds} order by h."name" for key share)`,
  `fit as materialized (select i.*, h."_id" as container_id, ${folders} as folder_ids
     from input i join held h on h."name" = i.container and (i.seen_id is null or (h."_id" = i.seen_id and h."__v" = i.seen_version)))`,
  // An upload is over for whoever else has ended it: the file is made by who deletes its row.
  `gone as (delete from penstock.storage_uploads where object_key = any(array(select object_key from fit))
     and id = any(array(select upload from fit where cardinality(folder_ids) = cardinality(levels))) returning id)`,
  'whole as materialized (select fit.* from fit join gone on gone.id = fit.upload)',
  `noted as (insert into penstock.storage_growth (container, bytes, files, owner)
     select container, sum(size)::bigint, count(*)::integer, owner from whole group by container, owner)`,
  `r as (insert into "app"."File" as f ("_id", "name", "alias", "folder", "container", "size", "isPublic", "mimeType", "metadata", "expiresAt", "owner", "createdBy",
     "state", "generation", "lastGeneration", "bucket", "objectKey", "checksum", "etag", "uri", "containerId", "folderIds", "createdAt", "updatedAt", "__v"${namesOf(columns)})
   select id, name, alias, folder, container, size, public, type, metadata::jsonb, expires, owner, author,
     'ready', 1, 1, bucket, object_key, checksum, etag, '/storage/getFileUrl/' || id::text, container_id, folder_ids, now(), now(), 0${namesOf(columns)}
   from whole returning f."_id", f."createdAt", f."metadata")`,
  `told as (insert into ${outboxTable} (topic, ids, payload, actor)
     select t.topic, array[i.id::text], i.payload, i.actor from whole i cross join unnest($2::text[]) with ordinality t(topic, n) order by i.id, t.n)`,
];

const namesOf = (columns: OwnerColumns): string =>
  columns.map(({ name }) => `, ${identifier(name)}`).join('');

const havingOwner =
  'having_owner as (select i.id as "_id", i.owner_type, i.owner_id from whole i where i.owner_type is not null)';
const rowsWithOwner = { rows: 'having_owner', schema: 'File', table: '"app"."File"', actor: '' };
const noOwner = { type: 'owner_type', id: 'owner_id' };

/**
 * The files that could be made, by their ids, each with all that belongs to it. Those whose owner or container has a quota do
 * not come here, and those who say their owner in their row rest on one state of permissions. Throws what the database says
 * when two want one place: then none of them is made.
 */
export async function insertWholeFiles(
  database: Queryable,
  files: readonly WholeFile[],
  tuples: RecordTuples | undefined,
): Promise<ReadonlyMap<string, FileRow>> {
  const inRecord = files.find((one) => one.inRecord)?.inRecord;
  const columns = inRecord ? (tuples?.columns(inRecord.owner) ?? []) : [];
  const parts = partsOf(columns, inRecord ? inRecord.holds.text('$3') : 'true');
  const isStored = tuples && files.some((one) => one.file.owner !== null && !one.inRecord);
  const owned = isStored ? [havingOwner, ...tuples.own(rowsWithOwner, noOwner)] : [];
  const { rows } = await database.query<Pick<FileRow, '_id' | 'createdAt' | 'metadata'>>(
    statement(`with ${[...parts, ...owned].join(', ')} select r.* from r`, [
      JSON.stringify(files.map((one) => rowOf(one, tuples))),
      files[0]?.topics ?? [],
      ...(inRecord ? [inRecord.holds.value] : []),
    ]),
  );
  const made = new Map(rows.map((row) => [row._id, row]));
  return new Map(
    files.flatMap(({ file }) => {
      const row = made.get(file.id);
      return row && file.content ? [[file.id, madeFile(file, file.content, row)] as const] : [];
    }),
  );
}

/** A file as its row says it; the database has said what it adds. */
const madeFile = (
  file: NewFile,
  content: StoredContent,
  { _id, createdAt, metadata }: Pick<FileRow, '_id' | 'createdAt' | 'metadata'>,
): FileRow => ({
  _id,
  name: file.name,
  alias: file.alias ?? null,
  folder: file.folder,
  container: file.container,
  size: content.size,
  isPublic: file.isPublic,
  mimeType: content.mimeType,
  state: 'ready',
  failure: null,
  generation: 1,
  checksum: content.checksum ?? null,
  etag: content.etag,
  owner: file.owner,
  createdBy: file.createdBy,
  metadata,
  expiresAt: file.expiresAt ?? null,
  createdAt,
  updatedAt: createdAt,
  bucket: content.bucket,
  objectKey: content.objectKey,
  pendingUpload: null,
  scan: null,
});
