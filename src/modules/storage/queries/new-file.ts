/** The SQL that makes files. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { outboxTable } from '../../../kernel/events/events.ts';
import type { CachedOwner, RecordTuples } from '../../../kernel/permissions.ts';
import { levelsOf } from '../names.ts';
import { type Charge, charging, containerCounted, counting } from './counters.ts';
import { containerId, folderIds } from './file-writes.ts';
import { type FilePath, type FileRow, fileColumns, type StoredContent } from './files.ts';
import { firstOf, statement } from './statement.ts';

export interface NewFile extends FilePath {
  readonly id: string;
  readonly alias: string | undefined;
  readonly size: number;
  readonly isPublic: boolean;
  readonly mimeType: string | undefined;
  readonly metadata?: unknown;
  readonly expiresAt?: Date | undefined;
  readonly owner: string | null;
  readonly createdBy: string;
  /** Absent: its bytes are expected. */
  readonly content?: StoredContent | undefined;
  /** The signed upload that will bring its bytes. */
  readonly pendingUpload?: string | undefined;
  /** Of a content that was one of this file before; 1 unless set. */
  readonly generation?: number | undefined;
  readonly createdAt?: Date | undefined;
}

/** The owner as permissions know it; nothing for files that belong to nobody. */
export function ownerParts(owner: string | null): readonly [type: string, id: string] | undefined {
  const colon = owner?.indexOf(':') ?? -1;
  return owner === null || colon === -1
    ? undefined
    : [owner.slice(0, colon), owner.slice(colon + 1)];
}

/** From the size to the tag, in the order of the columns. */
function contentValues(file: NewFile): readonly unknown[] {
  const { content, generation = 1 } = file;
  const { isPublic, expiresAt = null, owner, createdBy } = file;
  const metadata = file.metadata === undefined ? null : JSON.stringify(file.metadata);
  const facts = [metadata, expiresAt, owner, createdBy];
  if (!content)
    return [
      file.size,
      isPublic,
      file.mimeType ?? null,
      ...facts,
      'pending',
      0,
      null,
      null,
      null,
      null,
    ];
  const { size, mimeType, bucket, objectKey, checksum = null, etag } = content;
  return [
    size,
    isPublic,
    mimeType,
    ...facts,
    'ready',
    generation,
    bucket,
    objectKey,
    checksum,
    etag,
  ];
}

/** What every statement that makes a file begins with; `next` adds a further value. */
interface Insertion {
  readonly values: readonly unknown[];
  readonly next: (value: unknown) => string;
  /** Keeps its container from being deleted, or made public around a private file, until the transaction ends. `condition`: what else must be true of it, as `h`. */
  held(condition?: string): string;
  /** The new row, `r`. */
  row(condition: string, conflict?: string): string;
  /** Who owns it, as further parts of a `with`. */
  readonly owned: string;
}

function insertion(
  file: NewFile,
  tuples: RecordTuples | undefined,
  inRecord?: CachedOwner,
): Insertion {
  const values = [
    file.id,
    file.name,
    file.alias ?? null,
    file.folder,
    file.container,
    ...contentValues(file),
    file.pendingUpload ?? null,
    levelsOf(file.folder),
    file.content?.scan ?? null,
    file.createdAt ?? null,
  ];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const owner = tuples && !inRecord && ownerParts(file.owner);
  const columns = inRecord ? (tuples?.columns(inRecord.owner) ?? []) : [];
  const named = columns.map(({ name }) => `, ${identifier(name)}`).join('');
  const said = columns.map(({ type, value }) => `, ${next(value)}::${type}`).join('');
  const holds = inRecord ? ` and ${inRecord.holds.text(next(inRecord.holds.value))}` : '';
  const rows = { rows: 'r', schema: 'File', table: '"app"."File"', actor: '$12' };
  const owned = owner ? tuples.own(rows, { type: next(owner[0]), id: next(owner[1]) }) : [];
  return {
    values,
    next,
    held: (condition = 'true') =>
      `held as (select 1 from "app"."_StorageContainer" h where h."name" = $5 and ($7::boolean or not h."isPublic") and ${condition}${holds} for key share)`,
    row: (condition, conflict = '') =>
      `r as (insert into "app"."File" as f ("_id", "name", "alias", "folder", "container", "size", "isPublic", "mimeType", "metadata", "expiresAt", "owner", "createdBy",
        "state", "generation", "lastGeneration", "bucket", "objectKey", "checksum", "etag", "pendingUpload", "uri", "containerId", "folderIds", "scan", "createdAt", "updatedAt", "__v"${named})
      select $1::uuid, $2, $3, $4, $5, $6::bigint, $7::boolean, $8, $9::jsonb, $10::timestamptz, $11, $12,
        $13, $14::integer, greatest(1, $14::integer), $15, $16, $17, $18, $19, '/storage/getFileUrl/' || ($1::uuid)::text, ${containerId('$5')}, ${folderIds('$5', '$20')}, $21, coalesce($22::timestamptz, now()), now(), 0${said}
      where ${condition} ${conflict} returning f.*)`,
    owned: owned.map((part) => `, ${part}`).join(''),
  };
}

/**
 * With its owner, in one statement, which also keeps its container from being deleted until the transaction ends. Nothing
 * when the place is taken, or the container gone.
 */
export const insertFile = (
  database: Queryable,
  file: NewFile,
  tuples: RecordTuples | undefined,
): Promise<FileRow | undefined> => {
  const { values, held, row, owned } = insertion(file, tuples);
  const made = row(
    'exists (select from held)',
    'on conflict ("container", "folder", "name") do nothing',
  );
  return firstOf(
    database.query<FileRow>(
      statement(`with ${held()}, ${made}${owned} select ${fileColumns} from r f`, values),
    ),
  );
};

/** What tells a container from one that was changed or made since. */
export interface SeenVersion {
  readonly id: string;
  readonly version: number;
}

/** A new file whose bytes have arrived, with all that its transaction says. */
export interface WholeFile {
  readonly file: NewFile;
  /** The upload that it ends. */
  readonly upload: { readonly id: string; readonly objectKey: string };
  readonly bytes: number;
  readonly charge: Charge | undefined;
  /** As its container was when it was looked at, where that is a while ago: a changed one does not take the file. */
  readonly seen?: SeenVersion | undefined;
  readonly actor: string;
  /** Set where its owner is said in its row, if what was known of permissions still holds. */
  readonly inRecord?: CachedOwner | undefined;
  /** Topics of its events, one after the other. */
  readonly topics: readonly string[];
  readonly payload: unknown;
}

/**
 * What counts a new file, and the condition under which it is counted. Of a container and an owner with quotas only one can
 * be asked before anything is changed, so both together are left to the steps of a transaction.
 */
function countingWhole(
  { bytes, charge }: Pick<WholeFile, 'bytes' | 'charge'>,
  next: (value: unknown) => string,
): { readonly text: string; readonly counted: string } {
  const terms = { container: '$5', bytes: next(bytes), files: '1' };
  const condition = 'exists (select from named)';
  const owner = charge && {
    owner: `${next(charge.owner)}::text`,
    quota: `${next(charge.quota)}::bigint`,
  };
  if (!owner || charge.quota === null)
    return { text: counting({ ...terms, condition, charge: owner }), counted: containerCounted };
  const unbounded = `exists (select from "app"."_StorageContainer" u where u."name" = $5 and u."quota" is null)`;
  const asked = charging({ ...terms, charge: owner, condition: `${condition} and ${unbounded}` });
  const rest = counting({ ...terms, charge: owner, condition: 'exists (select from charged)' });
  return { text: `${asked}, ${rest}`, counted: 'exists (select from noted)' };
}

/**
 * The file, its owner, its events, the counters of its container and its owner and the end of its upload as one statement,
 * which is all or nothing. Nothing when anything stands in the way (the place is taken, a folder is not there, the
 * container is gone or full, the owner has no room, the upload is over, permissions were changed): the steps of a
 * transaction say what.
 */
export async function insertWholeFile(
  database: Queryable,
  { file, upload, actor, topics, payload, seen, inRecord, ...grown }: WholeFile,
  tuples: RecordTuples | undefined,
): Promise<FileRow | undefined> {
  const { values, next, held, row, owned } = insertion(file, tuples, inRecord);
  const ended = `id = ${next(upload.id)}::uuid and object_key = ${next(upload.objectKey)}`;
  const folders = `(select count(*) from "app"."_StorageFolder" d where d."container" = $5 and d."name" = any($20::text[])) = cardinality($20::text[])`;
  const { text, counted } = countingWhole(grown, next);
  const asSeen =
    seen && `h."_id" = ${next(seen.id)}::uuid and h."__v" = ${next(seen.version)}::integer`;
  const parts = [
    held(asSeen),
    `named as (select 1 from penstock.storage_uploads where ${ended} and exists (select from held) and ${folders} for update)`,
    text,
    row(counted),
    `told as (insert into ${outboxTable} (topic, ids, payload, actor)
       select t.topic, array[r."_id"::text], ${next(JSON.stringify(payload))}::jsonb, ${next(actor)} from r cross join unnest(${next(topics)}::text[]) t(topic))`,
    `gone as (delete from penstock.storage_uploads where ${ended} and exists (select from r))`,
  ];
  try {
    return await firstOf(
      database.query<FileRow>(
        statement(`with ${parts.join(', ')}${owned} select ${fileColumns} from r f`, values),
      ),
    );
  } catch (error) {
    // Somebody took the place meanwhile.
    if (codeOf(error) === '23505') return undefined;
    throw error;
  }
}
