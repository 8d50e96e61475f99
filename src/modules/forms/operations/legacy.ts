/** The paths that the code of the 0.16 line really had, in its shapes. Panels of that line use them. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { type GivenForm, NewFormShape } from '../definition/definition.ts';
import { type FormField, type GivenField, legacyTypeOf } from '../definition/field.ts';
import type { GivenFields } from '../definition/fields.ts';
import { formErrors } from '../errors.ts';
import type { Forms } from '../services/forms.ts';
import type { Submissions } from '../services/submissions.ts';
import {
  adminFacts,
  FormParams,
  FormQuery,
  LegacyForm,
  legacyOnWire,
  Paging,
  Submission,
  submissionOnWire,
} from './shapes.ts';

interface Services {
  readonly forms: Forms;
  readonly submissions: Submissions;
}

export const legacyOperations = (services: Services): readonly Operation[] => [
  list(services),
  create(services),
  replace(services),
  remove(services),
  replies(services),
];

const facts = { ...adminFacts, legacy: true, mcp: false } as const;
const Ok = Type.Object({ result: Type.Literal('Ok') });
const ok = { result: 'Ok' as const };

/** All of it was required then. */
const LegacyBody = Type.Object({
  ...NewFormShape.properties,
  forwardTo: Type.String({ maxLength: 2_600 }),
  emailField: Type.String({ maxLength: 64 }),
  enabled: Type.Boolean(),
});

const list = ({ forms }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.former.list',
    method: 'GET',
    path: '/forms/forms',
    input: { query: FormQuery },
    output: Type.Object({ forms: Type.Array(LegacyForm), count: Type.Integer() }),
    summary: 'List forms',
    handler: async (_context, { query }) => {
      const { forms: rows, count } = await forms.list(query);
      return { forms: rows.map(legacyOnWire), count };
    },
  });

const create = ({ forms }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.former.create',
    method: 'POST',
    path: '/forms/forms',
    input: { body: LegacyBody },
    output: Ok,
    errors: [formErrors.FORM_INVALID, formErrors.FORM_EXISTS],
    summary: 'Create a form',
    handler: async ({ caller }, { body }) => {
      await forms.create(caller, body as GivenForm);
      return ok;
    },
  });

const replace = ({ forms }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.former.replace',
    method: 'PUT',
    path: '/forms/forms/:formId',
    aliases: [{ method: 'PUT', path: '/forms/:formId' }],
    input: { params: FormParams, body: LegacyBody },
    output: Ok,
    errors: [formErrors.FORM_NOT_FOUND, formErrors.FORM_INVALID, formErrors.FORM_EXISTS],
    summary: 'Replace a form',
    description: 'What that line did not know of a form stays.',
    handler: async ({ caller }, { params, body }) => {
      const { definition } = await forms.get(params.formId);
      const fields = refined(body.fields as GivenFields, definition.fields);
      await forms.update(caller, params.formId, { ...body, fields } as Partial<GivenForm>);
      return ok;
    },
  });

/** A field that is sent back with the type that it was shown with is the field that is there. */
function refined(given: GivenFields, stored: readonly FormField[]): GivenFields {
  if (Array.isArray(given)) return given;
  return Object.entries(given).map(([name, one]): GivenField => {
    const known = stored.find((field) => field.name === name);
    const type = typeof one === 'string' ? one : one.type;
    if (known && legacyTypeOf(known.type) === type) return known;
    return typeof one === 'string' ? { name, type } : { name, ...one };
  });
}

const remove = ({ forms }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.former.delete',
    method: 'DELETE',
    path: '/forms/forms',
    input: {
      query: Type.Object({
        ids: Type.Array(Type.String({ format: 'uuid' }), {
          minItems: 1,
          maxItems: 1_000,
          description: 'Their ids',
        }),
      }),
    },
    output: Type.Object({
      forms: Type.Object({ deletedCount: Type.Integer() }),
      totalCount: Type.Integer({ description: 'Forms that are left' }),
    }),
    summary: 'Delete several forms',
    description: 'Their submissions stay.',
    handler: async ({ caller }, { query }) => {
      const deletedCount = await forms.removeMany(caller, query.ids);
      const { count } = await forms.list({ skip: 0, limit: 1, sort: 'name' });
      return { forms: { deletedCount }, totalCount: count };
    },
  });

const replies = ({ forms, submissions }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'forms.former.replies',
    method: 'GET',
    path: '/forms/replies/:formId',
    input: { params: FormParams, query: Type.Object(Paging) },
    output: Type.Object({ replies: Type.Array(Submission), count: Type.Integer() }),
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'List the submissions of a form',
    handler: async (_context, { params, query }) => {
      const { id } = await forms.get(params.formId);
      const { submissions: rows, count } = await submissions.list({
        ...query,
        formId: id,
        newestFirst: true,
      });
      return { replies: rows.map(submissionOnWire), count };
    },
  });
