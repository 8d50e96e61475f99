/** What is public of files, by their ids: the same that a record shows of a file that one of its fields holds. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { readableFiles } from '../services/confirmed-reads.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';

/** Files of one request. */
const MAX_IDS = 100;

/** Fields of a file that everybody sees who may read it. */
export const viewFields = [
  'name',
  'alias',
  'size',
  'mimeType',
  'isPublic',
  'state',
  'checksum',
  'etag',
  'uri',
] as const;

/** Marked as what relations to files show, for protocols with types. No schema has such a name. */
const FileView = Type.Object(
  { _id: FileDocument.properties._id, ...Type.Pick(FileDocument, [...viewFields]).properties },
  { record: 'File.View', partOf: 'File' },
);

export const fileViewOperations = (services: StorageServices): readonly Operation[] => [
  many(services),
];

const many = (services: StorageServices): Operation =>
  defineOperation({
    id: 'storage.file.many',
    surface: 'client',
    access: 'optionalUser',
    limit: standardLimit,
    method: 'GET',
    path: '/storage/files/many',
    heavy: true,
    input: {
      query: Type.Object({
        ids: Type.Array(Type.String({ format: 'uuid' }), {
          minItems: 1,
          maxItems: MAX_IDS,
          description: 'Ids of files',
        }),
      }),
    },
    output: Type.Object({ documents: Type.Array(FileView), count: Type.Integer() }),
    summary: 'Read what is known about several files',
    description:
      'In the order of the ids, each once. Files that are not there, have no content, or that you may not read are left out.',
    async handler({ caller }, { query: { ids } }) {
      const readable = await readableFiles(services, caller, ids, 'read');
      const found = new Map(readable.map((file) => [file._id, file]));
      const documents = [];
      for (const id of new Set(ids.map((one) => one.toLowerCase()))) {
        const file = found.get(id);
        if (!file) continue;
        const view = fileDocument(file, services.links);
        documents.push({
          _id: file._id,
          ...(Object.fromEntries(viewFields.map((name) => [name, view[name]])) as Pick<
            typeof view,
            (typeof viewFields)[number]
          >),
        });
      }
      return { documents, count: documents.length };
    },
  });
