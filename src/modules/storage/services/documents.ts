/** Files, folders and containers as clients see them. */

import type { Static } from 'typebox';
import Type from 'typebox';
import { bareBucket } from '../providers/routed.ts';
import type { ContainerRow } from '../queries/containers.ts';
import type { FileRow } from '../queries/files.ts';
import type { FolderRow } from '../queries/folders.ts';
import type { Links } from './links.ts';
import type { ListedFile } from './listing.ts';

const Timestamp = Type.String({ format: 'date-time' });

const orNull = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(
  type: T,
) => Type.Union([type, Type.Null()]);

export const FileDocument = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    id: Type.String({ format: 'uuid', description: 'The same as `_id`' }),
    name: Type.String(),
    alias: orNull(Type.String()),
    folder: Type.String(),
    container: Type.String(),
    size: Type.Integer({ description: 'Bytes', wide: true }),
    isPublic: Type.Boolean(),
    url: orNull(Type.String({ description: 'Lasting address of a public file' })),
    uri: Type.String({ description: 'Where to ask for an address' }),
    mimeType: orNull(Type.String()),
    state: Type.String({ description: '`pending`, `ready` or `failed`' }),
    failure: orNull(Type.String({ description: 'Why it failed' })),
    generation: Type.Integer(),
    checksum: orNull(Type.String({ description: 'SHA-256, hex' })),
    etag: orNull(Type.String()),
    owner: orNull(Type.String({ description: '<Type>:<id>' })),
    createdBy: orNull(Type.String()),
    metadata: Type.Unknown(),
    expiresAt: orNull(Type.String({ format: 'date-time' })),
    scan: orNull(
      Type.String({ description: '`waiting`, `clean` or `infected`; null: not examined' }),
    ),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { additionalProperties: true },
);

export type FileDocument = Static<typeof FileDocument>;

/** A file as clients see it: nothing of the store, addresses of the platform. */
export function fileDocument(file: FileRow | ListedFile, links: Links): FileDocument {
  const {
    bucket: _bucket,
    objectKey: _key,
    pendingUpload: _upload,
    ...visible
  } = { bucket: null, objectKey: null, pendingUpload: null, ...file };
  return {
    ...visible,
    id: file._id,
    url: file.isPublic ? links.publicUrl(file) : null,
    uri: `/storage/getFileUrl/${file._id}`,
    metadata: file.metadata ?? null,
    expiresAt: file.expiresAt === null ? null : isoOf(file.expiresAt),
    createdAt: isoOf(file.createdAt),
    updatedAt: isoOf(file.updatedAt),
  };
}

/** A page of files as clients see them. */
export const filePage = (
  {
    rows,
    count,
    nextCursor,
  }: {
    readonly rows: readonly ListedFile[];
    readonly count?: number;
    readonly nextCursor?: string | null;
  },
  links: Links,
) => ({
  files: rows.map((row) => fileDocument(row, links)),
  ...(count !== undefined && { filesCount: count }),
  ...(nextCursor !== undefined && { nextCursor }),
});

export const FileList = Type.Object({
  files: Type.Array(FileDocument),
  filesCount: Type.Optional(Type.Integer({ description: 'Absent with `count=none`' })),
  nextCursor: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'Only with `cursor`: where the next page begins; null on the last one',
    }),
  ),
});

const isoOf = (at: Date | string): string => new Date(at).toISOString();

export const FolderDocument = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    id: Type.String({ format: 'uuid' }),
    name: Type.String({ description: 'Whole path with a slash at its end' }),
    container: Type.String(),
    parent: Type.String(),
    isPublic: Type.Boolean(),
    createdBy: orNull(Type.String()),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { additionalProperties: true },
);

export const folderDocument = (folder: FolderRow): Static<typeof FolderDocument> => ({
  ...folder,
  id: folder._id,
  createdAt: isoOf(folder.createdAt),
  updatedAt: isoOf(folder.updatedAt),
});

export const ContainerDocument = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    isPublic: Type.Boolean(),
    bucket: Type.String({ description: 'Its name on the store' }),
    maxFileSize: orNull(Type.Integer({ description: 'Bytes' })),
    allowedMimeTypes: Type.Union([Type.Array(Type.String()), Type.Null()]),
    quota: orNull(Type.Integer({ description: 'Bytes of all its files' })),
    lifecycle: Type.Unknown(),
    usedBytes: Type.Integer({ wide: true }),
    fileCount: Type.Integer(),
    createdBy: orNull(Type.String()),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { additionalProperties: true },
);

export const containerDocument = (container: ContainerRow): Static<typeof ContainerDocument> => ({
  ...container,
  id: container._id,
  bucket: bareBucket(container.bucket),
  allowedMimeTypes: container.allowedMimeTypes ? [...container.allowedMimeTypes] : null,
  createdAt: isoOf(container.createdAt),
  updatedAt: isoOf(container.updatedAt),
});
