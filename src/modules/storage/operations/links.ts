/** Links that users give to others, and the trash. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import type { LinkRow } from '../queries/links.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { binary, contentErrors, rangeHeaders, scoped, withContent } from './files.ts';
import { FileParams, pageOf, Success, scopeField } from './shapes.ts';
import { TRANSFER_MS } from './uploads.ts';

const facts = { surface: 'client', limit: standardLimit } as const;
const admin = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

const time = Type.String({ format: 'date-time' });
const Link = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  fileId: Type.String({ format: 'uuid' }),
  download: Type.Boolean(),
  maxUses: Type.Union([Type.Integer(), Type.Null()]),
  uses: Type.Integer({ description: 'How often it was used' }),
  createdBy: Type.String(),
  createdAt: time,
  expiresAt: time,
  lastUsedAt: Type.Union([time, Type.Null()]),
});
const Links = Type.Object({ links: Type.Array(Link), count: Type.Integer() });

const linkDocument = (link: LinkRow) => ({
  ...link,
  createdAt: link.createdAt.toISOString(),
  expiresAt: link.expiresAt.toISOString(),
  lastUsedAt: link.lastUsedAt?.toISOString() ?? null,
});
const page = ({ rows, count }: { rows: readonly LinkRow[]; count: number }) => ({
  links: rows.map(linkDocument),
  count,
});

const LinkParams = Type.Object({
  id: Type.String({ format: 'uuid', description: 'Its id' }),
  linkId: Type.String({ format: 'uuid' }),
});
const shareErrors = [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_ACCESS_DENIED];
const YEAR = 366 * 86_400;

export const linkOperations = (services: StorageServices): readonly Operation[] => [
  create(services),
  list(services),
  revoke(services),
  use(services),
  listAll(services),
  revokeAny(services),
];

const create = ({ sharedLinks }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.link.create',
    access: 'user',
    method: 'POST',
    path: '/storage/file/:id/links',
    audit: true,
    input: {
      params: FileParams,
      body: Type.Object({
        expiresIn: Type.Optional(
          Type.Integer({
            default: 86_400,
            minimum: 10,
            maximum: YEAR,
            description: 'Seconds for which it works',
          }),
        ),
        maxUses: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 1_000_000,
            description: 'Requests that it answers; without it, any number',
          }),
        ),
        download: Type.Optional(Type.Boolean({ description: 'To be kept, not shown' })),
        ...scopeField,
      }),
    },
    output: Type.Object({ link: Link, url: Type.String() }),
    errors: shareErrors,
    summary: 'Make a link to a file',
    description:
      'Whoever has it reads the file, until it expires, is used up or is taken back. The address is shown only here.',
    async handler({ caller }, { params, body: { expiresIn = 86_400, ...rest } }) {
      const request = { ...rest, expiresInSeconds: expiresIn };
      const { link, url } = await sharedLinks.create(caller, params.id, request);
      return { link: linkDocument(link), url };
    },
  });

const list = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.link.list',
    access: 'user',
    method: 'GET',
    path: '/storage/file/:id/links',
    input: { params: FileParams, query: Type.Object({ ...pageOf(services), ...scopeField }) },
    output: Links,
    errors: shareErrors,
    summary: 'List the links to a file',
    handler: async ({ caller }, { params, query }) =>
      page(await services.sharedLinks.list(caller, params.id, query)),
  });

const revoke = ({ sharedLinks }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.link.revoke',
    access: 'user',
    method: 'DELETE',
    path: '/storage/file/:id/links/:linkId',
    audit: true,
    input: { params: LinkParams, query: scoped },
    output: Success,
    errors: [...shareErrors, storageErrors.LINK_NOT_FOUND],
    summary: 'Take a link back',
    async handler({ caller }, { params: { id, linkId }, query: { scope } }) {
      await sharedLinks.revoke(caller, id, linkId, scope);
      return { success: true, message: 'The link no longer works' } as const;
    },
  });

const use = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.link.use',
    access: 'public',
    method: 'GET',
    path: '/storage/link/:token',
    deadlineMs: TRANSFER_MS,
    anyApp: true,
    graphql: false,
    mcp: false,
    input: {
      params: Type.Object({ token: Type.String({ minLength: 20, maxLength: 100 }) }),
      headers: rangeHeaders,
    },
    output: Type.String({ contentMediaType: 'application/octet-stream' }),
    streams: binary,
    otherStatuses: { 206: 'a part of it', 304: 'you have it' },
    errors: [
      storageErrors.LINK_NOT_FOUND,
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_PENDING,
      ...contentErrors,
    ],
    audit: services.config().audit.downloads,
    summary: 'Read a file by a link',
    description:
      'Each answer is one use, also one of a part. A refusal is none: while the file is being scanned, the link stays good.',
    async handler(context, { params: { token }, headers }) {
      const { sharedLinks, delivery } = services;
      // Whoever reads the log shall not read the file by it.
      context.audited({ target: 'link' });
      const { link, file } = await sharedLinks.open(token);
      context.audited({ target: `id:${file._id} link:${link._id}` });
      const ready = withContent(services, file);
      const { range, 'if-range': ifRange } = headers;
      const { download } = link;
      const reply = delivery.reply(ready, { range, ifRange, download, context });
      await sharedLinks.use(token);
      return reply;
    },
  });

const listAll = (services: StorageServices): Operation =>
  defineOperation({
    ...admin,
    id: 'storage.links.list',
    method: 'GET',
    path: '/storage/links',
    input: { query: Type.Object(pageOf(services)) },
    output: Links,
    summary: 'List the links to all files',
    handler: async (_context, { query }) => page(await services.sharedLinks.listAll(query)),
  });

const revokeAny = ({ sharedLinks }: StorageServices): Operation =>
  defineOperation({
    ...admin,
    id: 'storage.links.revoke',
    method: 'DELETE',
    path: '/storage/links/:id',
    input: { params: FileParams },
    output: Success,
    errors: [storageErrors.LINK_NOT_FOUND],
    summary: 'Take a link back',
    async handler(_context, { params }) {
      await sharedLinks.revokeAny(params.id);
      return { success: true, message: 'The link no longer works' } as const;
    },
  });
