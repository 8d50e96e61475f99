/** Templates for several channels, as operators keep them. */
import Type, { type Static } from 'typebox';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import { localePattern } from '../readers.ts';
import { senderAddress } from '../recipients.ts';
import { filled, unsubscribeExample, writePlain } from '../services/mail-content.ts';
import type { Templates } from '../services/templates.ts';
import {
  inputOf,
  type UnifiedInput,
  type UnifiedTemplates,
} from '../services/unified-templates.ts';
import { PreviewBody } from './partials.ts';
import { adminFacts, ChannelName, Id, nullable, Paging } from './shapes.ts';

interface UnifiedParts {
  readonly unified: UnifiedTemplates;
  readonly templates: Templates;
  readonly config: () => CommunicationsConfig;
}

export const unifiedTemplateOperations = (parts: UnifiedParts): readonly Operation[] => [
  listOperation(parts.unified),
  getOperation(parts.unified),
  createOperation(parts),
  updateOperation(parts),
  removeOperation(parts.unified),
  migrateOperation(parts),
  previewOperation(parts),
];

/** Throws SENDER_NOT_ALLOWED. */
function requireOwnSenders(
  { config }: UnifiedParts,
  { email, translations = {} }: Partial<Static<typeof UnifiedShape>>,
): void {
  const named = Object.entries(translations).map(
    ([locale, texts]) => [`translations.${locale}.`, texts.email] as const,
  );
  for (const [place, block] of [['', email] as const, ...named])
    if (block?.sender) senderAddress(block.sender, config().email, `${place}email.sender`);
}

const path = '/communications/templates';
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });

const blocks = {
  email: Type.Optional(
    Type.Object(
      {
        subject: text(500),
        body: text(200_000),
        sender: Type.Optional(Type.String({ maxLength: 254 })),
      },
      { description: 'What the mail says' },
    ),
  ),
  push: Type.Optional(
    Type.Object(
      { title: text(500), body: text(3000) },
      { description: 'What the notification says' },
    ),
  ),
  sms: Type.Optional(
    Type.Object({ message: text(1600) }, { description: 'What the text message says' }),
  ),
};

/** A template as it is written. */
export const UnifiedShape = Type.Object({
  name: { ...text(100), description: 'Name by which messages use it' },
  channels: Type.Array(ChannelName, {
    minItems: 1,
    maxItems: 3,
    uniqueItems: true,
    description: 'Channels for which it has a text',
  }),
  ...blocks,
  translations: Type.Optional(
    Type.Record(Type.String({ pattern: localePattern }), Type.Object(blocks), {
      maxProperties: 100,
      description: 'The same blocks by language; those above are for all others',
    }),
  ),
  templateDescription: Type.Optional(
    Type.String({ maxLength: 1000, description: 'For operators' }),
  ),
  category: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,50}$',
      description: 'Kind of message by which people choose what they get',
    }),
  ),
  critical: Type.Optional(
    Type.Boolean({ description: 'Goes also to those who want none of its category' }),
  ),
  variables: Type.Optional(
    Type.Array(text(100), { maxItems: 100, description: 'Found in the texts unless given' }),
  ),
});

const CommunicationTemplate = Type.Object(
  {
    _id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    templateDescription: nullable(Type.String({ description: 'For operators' })),
    channels: Type.Array(Type.String()),
    email: nullable(Type.Unknown({ description: 'What the mail says' })),
    push: nullable(Type.Unknown({ description: 'What the notification says' })),
    sms: nullable(Type.Unknown({ description: 'What the text message says' })),
    translations: nullable(Type.Unknown()),
    variables: nullable(
      Type.Array(Type.String(), { description: 'Values for the template, by name' }),
    ),
    category: nullable(
      Type.String({ description: 'Kind of message by which people choose what they get' }),
    ),
    critical: Type.Boolean(),
  },
  { additionalProperties: true },
);
const One = Type.Object({ template: CommunicationTemplate });
const one = (json: string): Reply => Reply.json(`{"template":${json}}`);

const sortable = ['name', '-name', 'createdAt', '-createdAt', 'updatedAt', '-updatedAt'] as const;

const listOperation = (unified: UnifiedTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.list',
    method: 'GET',
    path,
    input: {
      query: Type.Object({
        ...Paging,
        sort: Type.Optional(
          Type.Array(Type.Enum(sortable), {
            maxItems: 3,
            description: 'What to order by; - in front: descending',
          }),
        ),
        search: Type.Optional({ ...text(100), description: 'A part of the name, or the id' }),
      }),
    },
    output: Type.Object({
      templateDocuments: Type.Array(CommunicationTemplate),
      count: Type.Integer(),
    }),
    summary: 'List templates for several channels',
    handler: async (_context, { query: { sort = [], ...filter } }) => {
      const { documents, count } = JSON.parse(await unified.list({ ...filter, sort }));
      return Reply.json(JSON.stringify({ templateDocuments: documents, count }));
    },
  });

const getOperation = (unified: UnifiedTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.get',
    method: 'GET',
    path: `${path}/:id`,
    input: { params: Id },
    output: One,
    errors: [messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Read a template for several channels',
    handler: async (_context, { params }) => one((await unified.get(params.id)).json),
  });

const writing = [
  messageErrors.TEMPLATE_INVALID,
  messageErrors.INVALID_RECIPIENT,
  messageErrors.SENDER_NOT_ALLOWED,
  messageErrors.TEMPLATE_EXISTS,
];

const createOperation = (parts: UnifiedParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.create',
    method: 'POST',
    path,
    input: { body: UnifiedShape },
    output: One,
    errors: writing,
    summary: 'Create a template for several channels',
    description:
      'Blocks of channels that are not named are left out. The name is free among mail templates too.',
    handler: async (_context, { body }) => {
      requireOwnSenders(parts, body);
      return one((await parts.unified.create(body as UnifiedInput)).json);
    },
  });

const updateOperation = (parts: UnifiedParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.update',
    method: 'PATCH',
    path: `${path}/:id`,
    input: { params: Id, body: Type.Partial(UnifiedShape) },
    output: One,
    errors: [...writing, messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Change a template for several channels',
    description: 'A block is replaced whole. Holds for the next message.',
    handler: async (_context, { params, body }) => {
      requireOwnSenders(parts, body);
      return one((await parts.unified.update(params.id, body as Partial<UnifiedInput>)).json);
    },
  });

const removeOperation = (unified: UnifiedTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.remove',
    method: 'DELETE',
    path: `${path}/:id`,
    input: { params: Id },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.TEMPLATE_NOT_FOUND],
    summary: 'Delete a template for several channels',
    handler: async (_context, { params }) => {
      await unified.remove(params.id);
      return { deleted: true as const };
    },
  });

const Plan = Type.Object({
  sourceId: Type.String({ format: 'uuid' }),
  sourceName: Type.String(),
  target: Type.Unknown(),
  skipped: Type.Optional(Type.Boolean()),
  warning: Type.Optional(Type.String()),
});

const migrateOperation = ({ unified, templates }: UnifiedParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.migrate',
    method: 'POST',
    path: `${path}/migrate-from-email`,
    account: { statements: 20_000 },
    input: {
      body: Type.Object({
        emailTemplateId: Type.Optional(
          Type.String({ format: 'uuid', description: 'Id of the mail template' }),
        ),
        dryRun: Type.Optional(Type.Boolean({ description: 'Only say what would be made' })),
        skipExisting: Type.Optional(
          Type.Boolean({ description: 'Leave those out whose name is taken' }),
        ),
        deleteSource: Type.Optional(
          Type.Boolean({ description: 'Take the mail templates away afterwards' }),
        ),
      }),
    },
    output: Type.Object({
      dryRun: Type.Boolean(),
      planned: Type.Array(Plan),
      created: Type.Union([Type.Literal(0), Type.Array(CommunicationTemplate)]),
      count: Type.Optional(Type.Integer()),
    }),
    errors: [messageErrors.TEMPLATE_NOT_FOUND, messageErrors.TEMPLATE_EXISTS],
    summary: 'Make templates for several channels out of mail templates',
    description:
      'All of those that operators wrote, or one. With `deleteSource` they keep their names; otherwise the new ones get another.',
    handler: async (
      { caller },
      { body: { emailTemplateId, dryRun = false, skipExisting = false, deleteSource = false } },
    ) => {
      const { planned, created } = await unified.migrate({
        emailTemplateId,
        apply: !dryRun,
        skipExisting,
        deleteSource,
        requireRemovable: (name) => templates.requireWriter(caller, name),
      });
      const documents = created.map(({ json }) => json).join(',');
      return Reply.json(
        dryRun
          ? JSON.stringify({ dryRun, planned, created: 0 })
          : `{"dryRun":false,"planned":${JSON.stringify(planned)},"created":[${documents}],"count":${created.length}}`,
      );
    },
  });

const Preview = Type.Object({
  email: Type.Optional(
    Type.Object(
      { subject: Type.String(), html: Type.String(), text: Type.String() },
      { description: 'What the mail says' },
    ),
  ),
  push: Type.Optional(
    Type.Object(
      { title: Type.String(), body: Type.String() },
      { description: 'What the notification says' },
    ),
  ),
  sms: Type.Optional(
    Type.Object({ message: Type.String() }, { description: 'What the text message says' }),
  ),
});

const previewOperation = ({ unified, templates }: UnifiedParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.unifiedTemplates.preview',
    method: 'POST',
    path: `${path}/:id/preview`,
    readOnly: true,
    input: { params: Id, body: PreviewBody },
    output: Preview,
    errors: [messageErrors.TEMPLATE_NOT_FOUND, messageErrors.TEMPLATE_INVALID],
    summary: 'Look at a template for several channels with values',
    handler: async (_context, { params, body }) => {
      const { name } = inputOf(JSON.parse((await unified.get(params.id)).json));
      return preview({ unified, templates }, name, body);
    },
  });

async function preview(
  { unified, templates }: Pick<UnifiedParts, 'unified' | 'templates'>,
  name: string,
  { variables = {}, locale, strict }: Static<typeof PreviewBody>,
): Promise<Static<typeof Preview>> {
  const template = await unified.find(name);
  if (!template) throw messageErrors.TEMPLATE_NOT_FOUND();
  const parts: Static<typeof Preview> = {};
  if (template.channels.includes('email')) {
    const { subject = '', body } = template.texts('email', locale);
    const ready = await templates.ready({ subject, body });
    parts.email = filled(ready, { unsubscribeLink: unsubscribeExample, ...variables }, strict);
  }
  if (template.channels.includes('push')) {
    const written = await writePlain(templates, template.texts('push', locale), variables, strict);
    parts.push = { title: written.subject ?? '', body: written.body };
  }
  if (template.channels.includes('sms')) {
    const written = await writePlain(templates, template.texts('sms', locale), variables, strict);
    parts.sms = { message: written.body };
  }
  return parts;
}
