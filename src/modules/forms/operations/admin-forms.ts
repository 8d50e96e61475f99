/** Forms as operators keep them. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { FormChangeShape, type GivenForm, NewFormShape } from '../definition/definition.ts';
import { formErrors } from '../errors.ts';
import type { Forms } from '../services/forms.ts';
import { adminFacts, Form, FormParams, FormQuery, formOnWire } from './shapes.ts';

export const formOperations = (
  forms: Forms,
  snippetOf: (formId: string) => string,
): readonly Operation[] => [
  list(forms),
  get(forms),
  create(forms),
  update(forms),
  remove(forms),
  snippet(forms, snippetOf),
];

const problems = [formErrors.FORM_INVALID, formErrors.FORM_EXISTS];

const list = (forms: Forms): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.list',
    method: 'GET',
    path: '/admin/forms',
    input: { query: FormQuery },
    output: Type.Object({ forms: Type.Array(Form), count: Type.Integer() }),
    summary: 'List forms',
    handler: async (_context, { query }) => {
      const { forms: rows, count } = await forms.list(query);
      return { forms: rows.map(formOnWire), count };
    },
  });

const get = (forms: Forms): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.get',
    method: 'GET',
    path: '/admin/forms/:formId',
    input: { params: FormParams },
    output: Form,
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Read a form',
    handler: async (_context, { params }) => formOnWire(await forms.get(params.formId)),
  });

const create = (forms: Forms): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.create',
    method: 'POST',
    path: '/admin/forms',
    input: { body: NewFormShape },
    output: Form,
    errors: problems,
    summary: 'Create a form',
    description: 'It takes submissions on every node when this returns.',
    handler: async ({ caller }, { body }) => formOnWire(await forms.create(caller, body)),
  });

const update = (forms: Forms): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.update',
    method: 'PUT',
    path: '/admin/forms/:formId',
    aliases: [{ method: 'PATCH', path: '/admin/forms/:formId' }],
    input: { params: FormParams, body: FormChangeShape },
    output: Form,
    errors: [formErrors.FORM_NOT_FOUND, ...problems],
    summary: 'Change a form',
    description: 'What is left out stays. Submissions keep the values they were sent with.',
    handler: async ({ caller }, { params, body }) =>
      formOnWire(await forms.update(caller, params.formId, body as Partial<GivenForm>)),
  });

const remove = (forms: Forms): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.delete',
    method: 'DELETE',
    path: '/admin/forms/:formId',
    input: {
      params: FormParams,
      query: Type.Object({
        cascade: Type.Boolean({
          default: false,
          description: 'Its submissions too; else they stay, and are read by their ids',
        }),
      }),
    },
    output: Type.Object({ message: Type.String(), deleted: Type.Literal(true) }),
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Delete a form',
    handler: async ({ caller }, { params, query }) => {
      await forms.remove(caller, params.formId, query.cascade);
      return { message: 'Form deleted', deleted: true as const };
    },
  });

const snippet = (forms: Forms, snippetOf: (formId: string) => string): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'forms.forms.snippet',
    method: 'GET',
    path: '/admin/forms/:formId/embed',
    input: { params: FormParams },
    output: Type.Object({
      html: Type.String({ description: 'To be put into a page' }),
    }),
    errors: [formErrors.FORM_NOT_FOUND],
    summary: 'Get the HTML that shows a form in a page',
    handler: async (_context, { params }) => ({
      html: snippetOf((await forms.get(params.formId)).id),
    }),
  });
