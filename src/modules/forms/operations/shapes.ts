/** What requests and answers about forms look like. */
import Type from 'typebox';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { DefinitionShape } from '../definition/definition.ts';
import { legacyTypeOf } from '../definition/field.ts';
import type { FormRow } from '../queries/forms.ts';
import type { SubmissionRow } from '../queries/submissions.ts';

export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Uuid = Type.String({ format: 'uuid' });
const Time = Type.String({ format: 'date-time' });

/** Ids that cannot be one are 404 like those that nothing has. */
export const FormParams = Type.Object({
  formId: Type.String({ minLength: 1, maxLength: 100, description: 'Id of the form' }),
});
export const SubmissionParams = Type.Object({
  submissionId: Type.String({ minLength: 1, maxLength: 100, description: 'Id of the submission' }),
});

export const Paging = {
  ...pagingQuery({ maxLimit: 200 }),
};

export const formSorts = [
  'name',
  '-name',
  'createdAt',
  '-createdAt',
  'updatedAt',
  '-updatedAt',
] as const;

export const FormQuery = Type.Object({
  ...Paging,
  sort: Type.Enum([...formSorts], {
    default: 'name',
    description: 'What to order by; - in front: descending',
  }),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'A part of the name, in any case' }),
  ),
});

export const Form = Type.Object({
  _id: Uuid,
  ...DefinitionShape.properties,
  version: Type.Integer({ description: 'Counts up with each change of the fields' }),
  createdAt: Time,
  updatedAt: Time,
});

export const formOnWire = ({ id, definition, version, createdAt, updatedAt }: FormRow) => ({
  _id: id,
  ...definition,
  version,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

/** A form as the code of the 0.16 line answered it: types by name, and addresses as text. */
export const LegacyForm = Type.Object({
  ...Form.properties,
  fields: Type.Record(Type.String(), Type.String()),
  forwardTo: Type.String(),
  emailField: Type.String(),
});

export const legacyOnWire = (form: FormRow) => ({
  ...formOnWire(form),
  fields: Object.fromEntries(
    form.definition.fields.map(({ name, type }) => [name, legacyTypeOf(type)]),
  ),
  forwardTo: form.definition.forwardTo.join(', '),
  emailField: form.definition.emailField ?? '',
});

export const SubmissionQuery = Type.Object({
  ...Paging,
  sort: Type.Enum(['-createdAt', 'createdAt'], {
    default: '-createdAt',
    description: 'What to order by; - in front: descending',
  }),
  possibleSpam: Type.Optional(Type.Boolean({ description: 'Whether they look like spam' })),
  from: Type.Optional(Type.String({ format: 'date-time', description: 'Sent then or later' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Sent before' })),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'A part of a value, in any case' }),
  ),
});

export const Submission = Type.Object({
  _id: Uuid,
  form: Uuid,
  formName: Type.String(),
  formVersion: Type.Integer({ description: 'Of the form when it was sent' }),
  data: Type.Record(Type.String(), Type.Unknown(), { description: 'Values by field' }),
  files: Type.Array(
    Type.Object({
      field: Type.String(),
      file: Type.String({ description: 'Its id in storage' }),
      name: Type.String(),
      size: Type.Integer({ description: 'Bytes' }),
      mimeType: orNull(Type.String()),
    }),
  ),
  possibleSpam: Type.Boolean(),
  signals: Type.Array(Type.String(), {
    description: 'Why: honeypot, timing, links, repeated, lookup; lookupFailed: nobody could tell',
  }),
  status: Type.Enum(['received', 'unconfirmed', 'confirmed']),
  user: orNull(Uuid),
  ip: Type.String({ description: 'The same for the same address, which it does not tell' }),
  userAgent: orNull(Type.String()),
  forwarded: orNull(
    Type.String({
      description:
        'queued, none, spam, limited, off, failed (a mail could not be written); null: not yet',
    }),
  ),
  confirmedAt: orNull(Time),
  createdAt: Time,
  updatedAt: Time,
});

export const submissionOnWire = (row: SubmissionRow): Type.Static<typeof Submission> => ({
  _id: row.id,
  form: row.formId,
  formName: row.formName,
  formVersion: row.formVersion,
  data: { ...row.data },
  files: row.files.map(({ stored: _stored, ...file }) => file),
  possibleSpam: row.possibleSpam,
  signals: [...row.signals],
  status: row.status,
  user: row.userId,
  ip: row.ipHash.slice(0, 32),
  userAgent: row.userAgent,
  forwarded: row.forwarded,
  confirmedAt: row.confirmedAt?.toISOString() ?? null,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});
