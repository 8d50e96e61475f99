/** Mail templates as operators see them. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import { localePattern } from '../readers.ts';
import { senderAddress } from '../recipients.ts';
import type { ExternalTemplates } from '../services/external-templates.ts';
import type { Templates } from '../services/templates.ts';
import { previewOperation } from './partials.ts';
import { adminFacts, Id, providerErrors } from './shapes.ts';

const facts = adminFacts;
const Name = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'Name of the template or of a variable',
});
const Subject = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'May hold {{variables}}',
});
const Body = Type.String({
  minLength: 1,
  maxLength: 200_000,
  description: 'HTML; may hold {{variables}}',
});
const Sender = Type.String({ maxLength: 254, description: 'With or without a domain' });
const sortable = ['name', 'createdAt', 'updatedAt'] as const;

const Variables = Type.Array(Name, {
  maxItems: 100,
  description: 'Names for readers. Those that subject and body use are found and added.',
});

const Translations = Type.Record(
  Type.String({ pattern: localePattern }),
  Type.Object({ subject: Subject, body: Body }),
  {
    maxProperties: 100,
    description: 'By language, such as de or pt-BR. The texts above are for all others.',
  },
);

/** A template as it is written. */
export const NewTemplateShape = Type.Object({
  name: Name,
  subject: Subject,
  body: Body,
  sender: Type.Optional(Sender),
  translations: Type.Optional(Translations),
  variables: Type.Optional(Variables),
});

/** What more may be said of a new one. */
const HeldThere = {
  externalManaged: Type.Optional(
    Type.Boolean({ description: 'Whether the mail provider gets it too, and its later changes' }),
  ),
  _id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: "The provider's own name for it, where it is there already",
    }),
  ),
  jsonTemplate: Type.Optional(
    Type.Unknown({ description: 'What an editor keeps beside it: answered as text, not used' }),
  ),
};

const asText = (design: unknown): string =>
  typeof design === 'string' ? design : JSON.stringify(design);

export const EmailTemplate = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    subject: Type.String(),
    body: Type.String(),
    sender: Type.Union([Type.String(), Type.Null()]),
    variables: Type.Union([Type.Array(Type.String()), Type.Null()]),
    externalManaged: Type.Boolean(),
    builtIn: Type.Boolean({ description: 'A module brought it' }),
    edited: Type.Boolean({ description: 'It was changed since' }),
    createdAt: Type.String({ format: 'date-time' }),
    updatedAt: Type.String({ format: 'date-time' }),
  },
  { additionalProperties: true },
);

interface TemplateParts {
  readonly templates: Templates;
  readonly external: ExternalTemplates;
  readonly config: () => CommunicationsConfig;
}

export const templateOperations = (parts: TemplateParts): readonly Operation[] => [
  ...templatesOf(parts.templates),
  createOperation(parts),
  updateOperation(parts),
];

const templatesOf = (templates: Templates): readonly Operation[] => [
  listOperation(templates),
  legacyListOperation(templates),
  getOperation(templates),
  removeOperation(templates),
  removeManyOperation(templates),
  previewOperation(templates),
];

const ListQuery = Type.Object({
  ...pagingQuery(),
  sort: Type.Optional(
    Type.Array(Type.Enum(sortable.flatMap((name) => [name, `-${name}`])), {
      maxItems: sortable.length,
      description: 'What to order by; - in front: descending',
    }),
  ),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'A part of the name, or the id' }),
  ),
});

async function listed(
  templates: Templates,
  { sort = [], ...filter }: Type.Static<typeof ListQuery>,
): Promise<{ readonly documents: unknown; readonly count: number }> {
  return JSON.parse(await templates.list({ ...filter, sort })) as {
    documents: unknown;
    count: number;
  };
}

const listOperation = (templates: Templates): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.list',
    method: 'GET',
    path: '/email/templates',
    input: { query: ListQuery },
    output: Type.Object({ templateDocuments: Type.Array(EmailTemplate), count: Type.Integer() }),
    summary: 'List mail templates',
    handler: async (_context, { query }) => {
      const { documents, count } = await listed(templates, query);
      return Reply.json(JSON.stringify({ templateDocuments: documents, count }));
    },
  });

const legacyListOperation = (templates: Templates): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.listFormer',
    method: 'GET',
    path: '/admin/email/templates',
    legacy: true,
    mcp: false,
    input: { query: ListQuery },
    output: Type.Object({
      templateDocuments: Type.Array(EmailTemplate),
      templates: Type.Array(EmailTemplate),
      count: Type.Integer(),
    }),
    summary: 'List mail templates',
    description: 'For clients of the 0.16 line: the same list under both of its names.',
    handler: async (_context, { query }) => {
      const { documents, count } = await listed(templates, query);
      return Reply.json(
        JSON.stringify({ templateDocuments: documents, templates: documents, count }),
      );
    },
  });

const getOperation = (templates: Templates): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.get',
    method: 'GET',
    path: '/email/templates/:id',
    aliases: [{ method: 'GET', path: '/admin/email/templates/:id' }],
    input: { params: Id },
    output: Type.Object({ ...EmailTemplate.properties, template: EmailTemplate }),
    errors: [messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Read a mail template',
    handler: async (_context, { params }) =>
      Reply.json(inPlaces((await templates.get(params.id)).json, 'template')),
  });

const createOperation = ({ templates, external, config }: TemplateParts): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.create',
    method: 'POST',
    path: '/email/templates',
    aliases: [{ method: 'POST', path: '/admin/email/templates' }],
    // A template that the provider holds too is asked for there.
    openWorld: true,
    deadlineMs: 60_000,
    input: { body: Type.Object({ ...NewTemplateShape.properties, ...HeldThere }) },
    output: Type.Object({ ...EmailTemplate.properties, template: EmailTemplate }),
    errors: [
      messageErrors.TEMPLATE_INVALID,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.SENDER_NOT_ALLOWED,
      messageErrors.TEMPLATE_EXISTS,
      ...providerErrors,
    ],
    summary: 'Create a mail template',
    description:
      'With `externalManaged` at the mail provider too, or with `_id` for the one that is there already; else no provider is needed.',
    handler: async ({ caller }, { body }) => {
      const { _id: externalId, externalManaged, jsonTemplate: design, ...texts } = body;
      if (texts.sender) senderAddress(texts.sender, config().email);
      const input = { ...texts, ...(design === undefined ? {} : { jsonTemplate: asText(design) }) };
      const there = externalManaged === true || externalId !== undefined;
      const json = there
        ? await external.create(caller, input, externalId)
        : (await templates.create(caller, input)).json;
      return Reply.json(inPlaces(json, 'template'));
    },
  });

const updateOperation = ({ templates, config }: TemplateParts): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.update',
    method: 'PATCH',
    path: '/email/templates/:id',
    aliases: [{ method: 'PUT', path: '/admin/email/templates/:id' }],
    input: {
      params: Id,
      body: Type.Object({
        name: Type.Optional(Name),
        subject: Type.Optional(Subject),
        body: Type.Optional(Body),
        sender: Type.Optional(Sender),
        translations: Type.Optional(Translations),
        variables: Type.Optional(Variables),
      }),
    },
    output: Type.Object({
      ...EmailTemplate.properties,
      template: EmailTemplate,
      updatedTemplate: EmailTemplate,
    }),
    errors: [
      messageErrors.TEMPLATE_INVALID,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.SENDER_NOT_ALLOWED,
      messageErrors.TEMPLATE_NOT_FOUND,
      messageErrors.TEMPLATE_EXISTS,
    ],
    summary: 'Change a mail template',
    description:
      'Holds for the next message. A template that a module brought keeps its name. Answers it three times: clients of different lines read it in different places.',
    handler: async ({ caller }, { params, body }) => {
      if (body.sender) senderAddress(body.sender, config().email);
      const { json } = await templates.update(caller, params.id, body);
      return Reply.json(inPlaces(json, 'template', 'updatedTemplate'));
    },
  });

/** The record as it is, and under these names: clients of different lines read it in different places. `json` is an object with members. */
const inPlaces = (json: string, ...names: readonly string[]): string =>
  `${json.trimEnd().slice(0, -1)}${names.map((name) => `,"${name}":${json}`).join('')}}`;

const Deleted = Type.Object({ deleted: Type.Literal(true), message: Type.String() });
const deleted = { deleted: true as const, message: 'Template deleted' };

const removeOperation = (templates: Templates): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.remove',
    method: 'DELETE',
    path: '/email/templates/:id',
    aliases: [{ method: 'DELETE', path: '/admin/email/templates/:id' }],
    input: { params: Id },
    output: Deleted,
    errors: [messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Delete a mail template',
    description: 'One that a module brought gets its first text back instead.',
    handler: async ({ caller }, { params }) => {
      await templates.remove(caller, [params.id]);
      return deleted;
    },
  });

const removeManyOperation = (templates: Templates): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.templates.removeMany',
    method: 'DELETE',
    path: '/email/templates',
    input: {
      query: Type.Object({
        ids: Type.Array(Type.String({ format: 'uuid' }), {
          minItems: 1,
          maxItems: 1000,
          description: 'Their ids',
        }),
      }),
    },
    output: Type.Object({ ...Deleted.properties, deletedDocuments: Type.Integer() }),
    errors: [messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Delete several mail templates',
    handler: async ({ caller }, { query }) => {
      await templates.remove(caller, query.ids);
      return { ...deleted, deletedDocuments: new Set(query.ids).size };
    },
  });
