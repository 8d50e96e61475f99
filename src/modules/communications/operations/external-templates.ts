/** Templates at the mail provider, as operators of both lines use them. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { messageErrors } from '../errors.ts';
import type { ExternalTemplates } from '../services/external-templates.ts';
import { adminFacts, Id, nullable, providerErrors } from './shapes.ts';
import { EmailTemplate } from './templates.ts';

export const externalTemplateOperations = (external: ExternalTemplates): readonly Operation[] => [
  listOperation(external),
  uploadOperation(external),
  uploadByBodyOperation(external),
  syncOperation(external),
];

const ProviderTemplate = Type.Object({
  _id: Type.String({ description: "The provider's own name for it" }),
  name: Type.String(),
  subject: Type.String(),
  body: Type.String(),
  createdAt: nullable(Type.String()),
  variables: Type.Optional(Type.Array(Type.String())),
});

/** Requests to the provider: one for each template. */
const providerFacts = {
  ...adminFacts,
  openWorld: true,
  deadlineMs: 120_000,
  account: { outboundCalls: 1000, statements: 5000 },
} as const;

const listOperation = (external: ExternalTemplates): Operation =>
  defineOperation({
    ...providerFacts,
    id: 'communications.templates.listExternal',
    method: 'GET',
    path: '/email/templates/external',
    aliases: [{ method: 'GET', path: '/email/externalTemplates' }],
    input: {
      query: Type.Object({
        ...pagingQuery({ maxSkip: 1_000 }),
        sortByName: Type.Optional(
          Type.Boolean({ description: 'From A to Z; otherwise from Z to A' }),
        ),
      }),
    },
    output: Type.Object({
      templateDocuments: Type.Array(ProviderTemplate),
      count: Type.Integer(),
    }),
    errors: providerErrors,
    summary: 'List the templates of the mail provider',
    handler: async (_context, { query: { skip, limit, sortByName = false } }) => {
      const turn = sortByName ? 1 : -1;
      const all = [...(await external.list())].sort((a, b) => (a.name < b.name ? -turn : turn));
      return {
        templateDocuments: all.slice(skip, skip + limit).map(({ id, variables, ...template }) => ({
          _id: id,
          ...template,
          variables: [...variables],
        })),
        count: all.length,
      };
    },
  });

const Uploaded = Type.Object({
  message: Type.String(),
  template: EmailTemplate,
  created: ProviderTemplate,
});
const uploadErrors = [...providerErrors, messageErrors.TEMPLATE_NOT_FOUND];

async function upload(
  external: ExternalTemplates,
  caller: Parameters<ExternalTemplates['upload']>[0],
  id: string,
): Promise<Reply> {
  const { template, created } = await external.upload(caller, id);
  const { id: _id, ...texts } = created;
  return Reply.json(
    `{"message":"Template uploaded","template":${template},"created":${JSON.stringify({ _id, ...texts })}}`,
  );
}

const uploadOperation = (external: ExternalTemplates): Operation =>
  defineOperation({
    ...providerFacts,
    id: 'communications.templates.upload',
    method: 'POST',
    path: '/email/templates/:id/upload',
    aliases: [{ method: 'POST', path: '/admin/email/templates/:id/upload' }],
    input: { params: Id },
    output: Uploaded,
    errors: uploadErrors,
    summary: 'Bring a template to the mail provider',
    description:
      'Made there, or given its texts of now. Mails are still written from the one here.',
    handler: ({ caller }, { params }) => upload(external, caller, params.id),
  });

const uploadByBodyOperation = (external: ExternalTemplates): Operation =>
  defineOperation({
    ...providerFacts,
    id: 'communications.templates.uploadByBody',
    method: 'POST',
    path: '/email/templates/upload',
    legacy: true,
    mcp: false,
    input: { body: Type.Object({ _id: Type.String({ format: 'uuid' }) }) },
    output: Uploaded,
    errors: uploadErrors,
    summary: 'Bring a template to the mail provider',
    description: 'For clients of the 0.16 line.',
    handler: ({ caller }, { body }) => upload(external, caller, body._id),
  });

const syncOperation = (external: ExternalTemplates): Operation =>
  defineOperation({
    ...providerFacts,
    id: 'communications.templates.sync',
    method: 'POST',
    path: '/email/templates/external/sync',
    aliases: [
      { method: 'POST', path: '/admin/email/sync' },
      { method: 'PUT', path: '/email/syncExternalTemplates' },
    ],
    input: {},
    output: Type.Object({
      message: Type.String(),
      updated: Type.Array(EmailTemplate),
      count: Type.Integer(),
    }),
    errors: providerErrors,
    summary: 'Fetch the texts of templates from the mail provider',
    description: 'Only of those that were brought there; none is made and none deleted.',
    handler: async ({ caller }) => {
      const updated = await external.sync(caller);
      return Reply.json(
        `{"message":"Templates synced","updated":[${updated.join(',')}],"count":${updated.length}}`,
      );
    },
  });
