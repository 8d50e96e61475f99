/** Parts that templates share, as operators keep them; and templates filled to be looked at. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import { localePattern } from '../readers.ts';
import { filled, unsubscribeExample } from '../services/mail-content.ts';
import type { PartialTemplates } from '../services/template-language.ts';
import { type Templates, templateTexts } from '../services/templates.ts';
import { adminFacts, Id, Timestamp } from './shapes.ts';

export const partialOperations = (partials: PartialTemplates): readonly Operation[] => [
  listOperation(partials),
  saveOperation(partials),
  removeOperation(partials),
];

const Name = Type.Object({
  name: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_-]{0,99}$', description: 'Name of the part' }),
});

const listOperation = (partials: PartialTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.partials.list',
    method: 'GET',
    path: '/communications/partials',
    input: {},
    output: Type.Object({
      partials: Type.Array(
        Type.Object({
          name: Type.String(),
          body: Type.String(),
          createdAt: Timestamp,
          updatedAt: Timestamp,
        }),
      ),
    }),
    summary: 'List the parts that templates share',
    handler: async () => ({
      partials: (await partials.list()).map(({ createdAt, updatedAt, ...partial }) => ({
        ...partial,
        createdAt: createdAt.toISOString(),
        updatedAt: updatedAt.toISOString(),
      })),
    }),
  });

const saveOperation = (partials: PartialTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.partials.save',
    method: 'PUT',
    path: '/communications/partials/:name',
    input: {
      params: Name,
      body: Type.Object({
        body: Type.String({
          minLength: 1,
          maxLength: 100_000,
          description: 'What {{> name}} puts there; {{> @partial-block}} is what {{#> name}} holds',
        }),
      }),
    },
    output: Type.Object({ name: Type.String(), body: Type.String() }),
    errors: [messageErrors.TEMPLATE_INVALID],
    summary: 'Write a part that templates share, or a layout',
    description: 'Holds for the next message.',
    handler: async ({ caller }, { params, body }) => {
      await partials.save(caller, params.name, body.body);
      return { name: params.name, body: body.body };
    },
  });

const removeOperation = (partials: PartialTemplates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.partials.remove',
    method: 'DELETE',
    path: '/communications/partials/:name',
    input: { params: Name },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.PARTIAL_NOT_FOUND],
    summary: 'Delete a part that templates share',
    description: 'Templates that use it are refused until it is there again.',
    handler: async ({ caller }, { params }) => {
      await partials.remove(caller, params.name);
      return { deleted: true as const };
    },
  });

/** What a template becomes with these values. */
export const PreviewBody = Type.Object({
  variables: Type.Optional(
    Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
      description: 'Values for the text, by name',
    }),
  ),
  locale: Type.Optional(
    Type.String({ pattern: localePattern, description: 'Language, such as de or pt-BR' }),
  ),
  strict: Type.Optional(Type.Boolean({ description: 'A variable that is not there is an error' })),
});

export const previewOperation = (templates: Templates): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.templates.preview',
    method: 'POST',
    path: '/email/templates/:id/preview',
    readOnly: true,
    input: { params: Id, body: PreviewBody },
    output: Type.Object({ subject: Type.String(), html: Type.String(), text: Type.String() }),
    errors: [messageErrors.TEMPLATE_NOT_FOUND, messageErrors.TEMPLATE_INVALID],
    summary: 'Look at a mail template with values',
    handler: async (_context, { params, body: { variables = {}, locale, strict } }) => {
      const ready = await templates.ready(
        templateTexts((await templates.get(params.id)).json, locale),
      );
      return filled(ready, { unsubscribeLink: unsubscribeExample, ...variables }, strict);
    },
  });
