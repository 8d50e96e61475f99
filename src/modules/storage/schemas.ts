/** The data that storage owns, in the schema language. */
import type { SchemaDefinition } from '../../data/schema/language/definition.ts';

/** Operators may add fields to them; documents themselves are made and changed by this module alone. */
const owned = {
  cms: { enabled: false },
  permissions: {
    extendable: true,
    canCreate: false,
    canModify: 'ExtensionOnly',
    canDelete: false,
  },
} as const;

const bytes = (description: string) =>
  ({ type: 'Number', sqlType: 'BIGINT', required: true, default: 0, description }) as const;

/** The life of a file: its bytes are expected, are there, or were refused when they came. */
export const fileStates = ['pending', 'ready', 'failed'] as const;
export type FileState = (typeof fileStates)[number];

/** What lists of files are sorted by. Each has an index, so that a page costs the same among a million files. */
export const sortedBy = ['name', 'size', 'createdAt', 'updatedAt', 'folder', 'mimeType'] as const;

/**
 * A file. `bucket` and `objectKey` say where the bytes of the current generation lie, so that a name, a folder or a
 * replacement can change without touching bytes that somebody reads.
 */
export const fileSchema = {
  name: 'File',
  fields: {
    name: { type: 'String', required: true },
    alias: { type: 'String', description: 'Name for people, used for downloads.' },
    folder: { type: 'String', required: true, description: 'Whole path: `a/b/`, or `/`.' },
    container: { type: 'String', required: true },
    size: bytes('Bytes.'),
    isPublic: { type: 'Boolean', required: true, default: false },
    mimeType: 'String',
    state: { type: 'String', required: true, default: 'pending', enum: fileStates },
    failure: { type: 'String', description: 'Why it failed: the code of an error.' },
    generation: {
      type: 'Number',
      sqlType: 'INT',
      required: true,
      default: 0,
      description: 'Which of the contents it had is the current one; 0 before the first.',
    },
    checksum: { type: 'String', description: 'SHA-256 of the content, in hex.' },
    etag: 'String',
    owner: { type: 'String', description: 'Who it belongs to, as <Type>:<id>.' },
    createdBy: { type: 'String', description: 'Who uploaded it.' },
    metadata: { type: 'JSON', description: 'What the app wants to keep with it.' },
    expiresAt: { type: 'Date', description: 'When it is deleted by itself.' },
    bucket: { type: 'String', select: false },
    objectKey: { type: 'String', select: false },
    lastGeneration: { type: 'Number', sqlType: 'INT', required: true, default: 0, select: false },
    scan: {
      type: 'String',
      enum: ['waiting', 'clean', 'infected'],
      description: 'What the scanner has said of the content.',
    },
    uri: { type: 'String', description: 'Where to ask for an address of the content.' },
    containerId: {
      type: 'Relation',
      model: '_StorageContainer',
      select: false,
      description: 'By which rights on the container reach the file.',
    },
    folderIds: {
      type: ['Relation'],
      model: '_StorageFolder',
      select: false,
      description: 'The folder and those above it, whose rights reach the file.',
    },
    pendingUpload: {
      type: 'String',
      select: false,
      description: 'A signed upload that may have arrived without anybody having said so.',
    },
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      { fields: ['container', 'folder', 'name'], options: { unique: true } },
      { fields: ['owner', 'createdAt'] },
      { fields: ['state', 'createdAt'] },
      { fields: ['container', 'createdAt'] },
      { fields: ['bucket', 'objectKey'] },
      { fields: ['expiresAt'] },
      { fields: ['isPublic', 'createdAt'] },
      // Lists walk them in either direction, whatever they are sorted by (services/listing.ts).
      ...sortedBy.map((name) => ({ fields: [name, '_id'] })),
    ],
    // Who may see which file, the module says (services/access.ts).
    conduit: { ...owned, authorization: { enabled: true } },
  },
} as const satisfies SchemaDefinition;

/** A folder: a document only, nothing on the store. */
export const folderSchema = {
  name: '_StorageFolder',
  fields: {
    name: { type: 'String', required: true, description: 'Whole path with a slash at its end.' },
    container: { type: 'String', required: true },
    parent: { type: 'String', required: true, default: '/' },
    isPublic: { type: 'Boolean', required: true, default: false },
    createdBy: 'String',
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      { fields: ['container', 'name'], options: { unique: true } },
      { fields: ['container', 'parent'] },
    ],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;

/** A container. Its counters change in the transactions that change its files. */
export const containerSchema = {
  name: '_StorageContainer',
  fields: {
    name: { type: 'String', required: true, unique: true },
    isPublic: { type: 'Boolean', required: true, default: false },
    bucket: { type: 'String', required: true, unique: true, description: 'Its name on the store.' },
    maxFileSize: { type: 'Number', sqlType: 'BIGINT', description: 'Bytes of one file.' },
    allowedMimeTypes: ['String'],
    quota: { type: 'Number', sqlType: 'BIGINT', description: 'Bytes of all its files.' },
    lifecycle: 'JSON',
    usedBytes: bytes('Bytes of its files.'),
    fileCount: bytes('Files with content.'),
    createdBy: 'String',
  },
  modelOptions: { timestamps: true, conduit: owned },
} as const satisfies SchemaDefinition;
