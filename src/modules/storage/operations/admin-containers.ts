/** Containers, and figures about all of them. */
import Type, { type Static } from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { storageTotals } from '../queries/insights.ts';
import { ContainerDocument, containerDocument } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { FileParams, pageOf } from './shapes.ts';

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const adminContainerOperations = (services: StorageServices): readonly Operation[] => [
  list(services),
  create(services),
  update(services),
  remove(services),
  stats(services),
];

const list = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.containers.list',
    method: 'GET',
    path: '/storage/containers',
    input: {
      query: Type.Object({
        ...pageOf(services),
        sort: Type.Optional(
          Type.Array(
            Type.Enum(['name', '-name', 'createdAt', '-createdAt', 'usedBytes', '-usedBytes']),
            {
              maxItems: 2,
              description: 'What to order by; - in front: descending',
            },
          ),
        ),
      }),
    },
    output: Type.Object({
      containers: Type.Array(ContainerDocument),
      containersCount: Type.Integer(),
    }),
    summary: 'List containers',
    async handler(_context, { query }) {
      const { rows, count } = await services.listing.containers(query);
      return {
        containers: rows.map((row) => containerDocument(row as unknown as ContainerRow)),
        containersCount: count,
      };
    },
  });

const create = ({ containers }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.containers.create',
    method: 'POST',
    path: '/storage/containers',
    input: {
      body: Type.Object({
        name: Type.String({ maxLength: 100, description: 'Name of the container' }),
        isPublic: Type.Optional(Type.Boolean({ description: 'All files in it are public' })),
      }),
    },
    output: ContainerDocument,
    errors: [
      storageErrors.INVALID_NAME,
      storageErrors.CONTAINER_EXISTS,
      storageErrors.PROVIDER_ERROR,
      storageErrors.PROVIDER_UNAVAILABLE,
    ],
    summary: 'Make a container',
    handler: async ({ caller }, { body: { name, isPublic = false } }) =>
      containerDocument(await containers.create(caller, name, isPublic)),
  });

const bytesOrNull = (description: string) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
      description,
    }),
  );

/** What operators say about a container. */
export const ContainerRules = Type.Object({
  isPublic: Type.Optional(Type.Boolean({ description: 'All files in it are public' })),
  maxFileSize: bytesOrNull('Bytes of one file; null: as configured for all'),
  allowedMimeTypes: Type.Optional(
    Type.Union([Type.Array(Type.String({ maxLength: 255 }), { maxItems: 100 }), Type.Null()], {
      description: '`image/png` or `image/*`; null: any',
    }),
  ),
  quota: bytesOrNull('Bytes of all its files; null: any'),
  lifecycle: Type.Optional(
    Type.Union(
      [
        Type.Object({
          deleteAfterDays: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: 36_500,
              description: 'Days after its upload at which a file is deleted',
            }),
          ),
        }),
        Type.Null(),
      ],
      { description: 'When its files are deleted by themselves' },
    ),
  ),
});

const update = ({ containerAdmin }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.containers.update',
    method: 'PATCH',
    path: '/storage/containers/:id',
    input: {
      params: FileParams,
      body: ContainerRules,
    },
    output: ContainerDocument,
    errors: [
      storageErrors.CONTAINER_NOT_FOUND,
      storageErrors.PRIVATE_IN_PUBLIC,
      storageErrors.INVALID_MIME,
    ],
    summary: 'Change a container',
    description: 'Limits hold for what is uploaded from now on.',
    handler: async ({ caller }, { params, body }) =>
      containerDocument(await containerAdmin.update(caller, params.id, body)),
  });

const remove = ({ containerAdmin }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.containers.remove',
    method: 'DELETE',
    path: '/storage/containers/:id',
    deadlineMs: 300_000,
    input: {
      params: FileParams,
      query: Type.Object({
        force: Type.Optional(Type.Boolean({ description: 'With all that is in it' })),
      }),
    },
    output: ContainerDocument,
    errors: [
      storageErrors.CONTAINER_NOT_FOUND,
      storageErrors.CONTAINER_NOT_EMPTY,
      storageErrors.PROVIDER_ERROR,
      storageErrors.PROVIDER_UNAVAILABLE,
    ],
    summary: 'Delete a container',
    handler: async ({ caller }, { params, query: { force = false } }) =>
      containerDocument(await containerAdmin.remove(caller, params.id, force)),
  });

export const Totals = Type.Object({
  containers: Type.Integer(),
  folders: Type.Integer(),
  files: Type.Integer({ description: 'With content' }),
  totalSize: Type.Integer({ description: 'Bytes' }),
  publicFiles: Type.Integer(),
  privateFiles: Type.Integer(),
  perContainer: Type.Array(
    Type.Object({ name: Type.String(), files: Type.Integer(), size: Type.Integer() }),
  ),
});

/** The figures as answers have them. */
export const totalsOf = async ({ database }: StorageServices): Promise<Static<typeof Totals>> => {
  const { perContainer, ...rest } = await storageTotals(database);
  return { ...rest, perContainer: [...perContainer] };
};

const stats = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.stats.get',
    method: 'GET',
    path: '/storage/stats',
    heavy: true,
    input: {},
    output: Totals,
    summary: 'Count files and bytes',
    handler: () => totalsOf(services),
  });
