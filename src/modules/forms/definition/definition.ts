/** What a form is: its fields, and what happens with what is sent. */
import Type, { type Static } from 'typebox';
import type { Problem } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import { refuseForm } from '../errors.ts';
import { FieldDocument, FieldMapShape, FieldShape, type FormField } from './field.ts';
import { type FieldBounds, type GivenFields, readFields } from './fields.ts';
import { isMailbox } from './values.ts';

const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const AutoReply = Type.Object({
  subject: Type.String({ minLength: 1, maxLength: 500, description: 'May hold {{variables}}' }),
  body: Type.String({
    minLength: 1,
    maxLength: 100_000,
    description: 'HTML with {{variables}}: the fields by name, and `form`. Values are escaped',
  }),
});

/** What may be said about a form beside its name and its fields. */
export const formFacts = {
  enabled: Type.Optional(Type.Boolean({ default: true, description: 'Off: 404 for visitors' })),
  forwardTo: Type.Optional(
    orNull(
      Type.Union(
        [
          Type.String({ maxLength: 2_600, description: 'One address, or several with commas' }),
          Type.Array(Type.String({ maxLength: 254 }), { maxItems: 10 }),
        ],
        { description: 'Addresses that get each submission' },
      ),
    ),
  ),
  emailField: Type.Optional(
    orNull(
      Type.String({
        maxLength: 64,
        description: 'The field that holds the address of the submitter',
      }),
    ),
  ),
  authRequired: Type.Optional(Type.Boolean({ description: 'Only signed-in users submit' })),
  autoReply: Type.Optional(
    orNull(
      Type.Union([AutoReply, Type.Boolean()], {
        description: 'A mail to the submitter; true: the template FormAutoReply',
      }),
    ),
  ),
  doubleOptIn: Type.Optional(
    Type.Boolean({ description: 'A submission counts when its sender has confirmed it by mail' }),
  ),
  proofOfWork: Type.Optional(Type.Boolean({ description: 'Wants a solved challenge' })),
  redirectUrl: Type.Optional(
    orNull(Type.String({ maxLength: 2_000, description: 'Where browsers go after submitting' })),
  ),
  message: Type.Optional(
    orNull(Type.String({ minLength: 1, maxLength: 500, description: 'What submitters are told' })),
  ),
  template: Type.Optional(
    orNull(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'Mail template of forwarded submissions; FormSubmission unless set',
      }),
    ),
  ),
  closesAt: Type.Optional(
    orNull(Type.String({ format: 'date-time', description: 'Takes nothing from then on' })),
  ),
  maxSubmissions: Type.Optional(
    orNull(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'Takes no more than so many',
      }),
    ),
  ),
};

const Name = Type.String({ minLength: 1, maxLength: 200, description: 'What people call it' });
const Fields = Type.Union([Type.Array(FieldShape, { maxItems: 500 }), FieldMapShape], {
  description: 'A list of fields; a map from name to type, as the 0.16 line had it, is taken too',
});

/** A form as it is written. */
export const NewFormShape = Type.Object({
  name: Name,
  fields: Fields,
  ...formFacts,
});
export const FormChangeShape = Type.Object({
  name: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'What people call it' }),
  ),
  fields: Type.Optional(Fields),
  ...formFacts,
});
export type GivenForm = Static<typeof NewFormShape>;

/** A form as it is stored, without what only the database knows. */
export const DefinitionShape = Type.Object({
  name: Type.String(),
  fields: Type.Array(FieldDocument),
  enabled: Type.Boolean(),
  forwardTo: Type.Array(Type.String()),
  emailField: orNull(Type.String()),
  authRequired: Type.Boolean(),
  autoReply: Type.Union([AutoReply, Type.Boolean()]),
  doubleOptIn: Type.Boolean(),
  proofOfWork: Type.Boolean(),
  redirectUrl: orNull(Type.String()),
  message: orNull(Type.String()),
  template: orNull(Type.String()),
  closesAt: orNull(Type.String({ description: 'Takes nothing from then on' })),
  maxSubmissions: orNull(Type.Integer({ description: 'Takes no more than so many' })),
});
export type FormDefinition = Static<typeof DefinitionShape>;

/** The form that this describes. Throws FORM_INVALID with everything that is wrong. */
export function readDefinition(given: GivenForm, bounds: FieldBounds): FormDefinition {
  const problems: Problem[] = [];
  const fields = readFields(given.fields as GivenFields, bounds, problems);
  const definition: FormDefinition = {
    name: given.name.trim(),
    fields: [...fields],
    enabled: given.enabled ?? true,
    forwardTo: addressesOf(given.forwardTo),
    emailField: given.emailField || null,
    authRequired: given.authRequired ?? false,
    autoReply: given.autoReply ?? false,
    doubleOptIn: given.doubleOptIn ?? false,
    proofOfWork: given.proofOfWork ?? false,
    redirectUrl: given.redirectUrl || null,
    message: given.message ?? null,
    template: given.template ?? null,
    closesAt: given.closesAt ?? null,
    maxSubmissions: given.maxSubmissions ?? null,
  };
  problems.push(...problemsOf(definition));
  refuseForm(problems);
  return definition;
}

const addressesOf = (given: GivenForm['forwardTo']): string[] => [
  ...new Set(
    (typeof given === 'string' ? given.split(',') : (given ?? []))
      .map((address) => address.trim())
      .filter((address) => address !== ''),
  ),
];

function problemsOf(definition: FormDefinition): readonly Problem[] {
  const { name, forwardTo, redirectUrl } = definition;
  return [
    // `/forms/submissions/...` would be read as one.
    ...(name === '' || isId(name) || name === 'submissions'
      ? [{ path: 'name', rule: 'pattern', message: 'this cannot be the name of a form' }]
      : []),
    ...(forwardTo.length > 10
      ? [{ path: 'forwardTo', rule: 'maxItems', message: 'has at most 10 addresses' }]
      : []),
    ...forwardTo.flatMap((address, i) =>
      isMailbox(address)
        ? []
        : [{ path: `forwardTo.${i}`, rule: 'email', message: 'must be the address of a mailbox' }],
    ),
    ...emailFieldProblems(definition),
    ...(redirectUrl === null || isWebAddress(redirectUrl)
      ? []
      : [
          {
            path: 'redirectUrl',
            rule: 'url',
            message: 'must be an address like https://example.com/thanks',
          },
        ]),
  ];
}

function emailFieldProblems({
  fields,
  emailField,
  autoReply,
  doubleOptIn,
}: FormDefinition): readonly Problem[] {
  const problem = (rule: string, message: string) => [{ path: 'emailField', rule, message }];
  if (emailField === null)
    return autoReply || doubleOptIn
      ? problem('required', 'replies and confirmations need the field with the address')
      : [];
  const field = fields.find(({ name }) => name === emailField);
  return field && (field.type === 'email' || field.type === 'text')
    ? []
    : problem('field', 'must be the name of an email or text field of this form');
}

const isWebAddress = (text: string): boolean =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

/** The field of that name. */
export const fieldOf = (
  { fields }: Pick<FormDefinition, 'fields'>,
  name: string,
): FormField | undefined => fields.find((field) => field.name === name);
