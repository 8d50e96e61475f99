/** The fields of forms: their types in both vocabularies, and what may be said about each. */
import Type, { type Static } from 'typebox';

export const fieldTypes = [
  'text',
  'textarea',
  'email',
  'number',
  'date',
  'select',
  'checkbox',
  'url',
  'phone',
  'file',
] as const;
export type FieldType = (typeof fieldTypes)[number];

/** Types as clients write them, in lower case: ours, and those of the code of the 0.16 line. */
const byName: ReadonlyMap<string, FieldType> = new Map<string, FieldType>([
  ...fieldTypes.map((type) => [type, type] as const),
  ['string', 'text'],
]);

/** The type of that name; `undefined` where there is none. */
export const fieldTypeOf = (name: string): FieldType | undefined => byName.get(name.toLowerCase());

const legacyNames: ReadonlyMap<FieldType, string> = new Map([
  ['number', 'Number'],
  ['date', 'Date'],
  ['file', 'File'],
]);

/** The type as the code of the 0.16 line calls it, which knew four. */
export const legacyTypeOf = (type: FieldType): string => legacyNames.get(type) ?? 'String';

const whole = (description: string) => Type.Integer({ minimum: 0, maximum: 100_000, description });
const bound = (description: string) =>
  Type.Union([Type.Number(), Type.String({ maxLength: 40 })], { description });

/** Rules for values. */
const rules = {
  minLength: Type.Optional(whole('Characters, at least (text, textarea)')),
  maxLength: Type.Optional(whole('Characters, at most (text, textarea)')),
  pattern: Type.Optional(
    Type.String({
      maxLength: 500,
      description: 'A regular expression that is found in the value (text, textarea)',
    }),
  ),
  min: Type.Optional(bound('Smallest number, or first date')),
  max: Type.Optional(bound('Largest number, or last date')),
  integer: Type.Optional(Type.Boolean({ description: 'Whole numbers only (number)' })),
  options: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 500 }), {
      minItems: 1,
      maxItems: 500,
      description: 'What can be chosen (select)',
    }),
  ),
  multiple: Type.Optional(Type.Boolean({ description: 'Several can be chosen (select, file)' })),
  mimeTypes: Type.Optional(
    Type.Array(
      Type.String({ maxLength: 100, pattern: '^[A-Za-z0-9.+-]+/([A-Za-z0-9.+-]+|\\*)$' }),
      {
        minItems: 1,
        maxItems: 50,
        description: 'Types that are taken: image/png, image/* (file)',
      },
    ),
  ),
  maxSize: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 104_857_600, description: 'Bytes of one file (file)' }),
  ),
};

/** What may be said about a field beside its name. */
export const fieldFacts = {
  type: Type.String({
    maxLength: 20,
    description: `${fieldTypes.join(', ')}; of the 0.16 line String, Number, Date and File too, in any case`,
  }),
  required: Type.Optional(Type.Boolean({ default: false })),
  label: Type.Optional(Type.String({ maxLength: 200, description: 'For people' })),
  placeholder: Type.Optional(Type.String({ maxLength: 200 })),
  default: Type.Optional(
    Type.Union([Type.String({ maxLength: 100_000 }), Type.Number(), Type.Boolean()], {
      description: 'What counts where nothing is filled in',
    }),
  ),
  ...rules,
};

/** The same rules may stand in an object of their own. */
const validation = Type.Optional(Type.Object(rules, { description: 'The rules, in one place' }));

export const FieldShape = Type.Object({
  name: Type.String({ maxLength: 100 }),
  ...fieldFacts,
  validation,
});
export type GivenField = Static<typeof FieldShape>;

/** A field as it is stored and answered. */
export const FieldDocument = Type.Object({
  name: Type.String(),
  ...fieldFacts,
  type: Type.Enum([...fieldTypes]),
  required: Type.Boolean(),
});
export type FormField = Static<typeof FieldDocument>;

/** By name: a type, or what else is said. The form of the code of the 0.16 line. */
export const FieldMapShape = Type.Record(
  Type.String({ maxLength: 100 }),
  Type.Union([Type.String({ maxLength: 20 }), Type.Object({ ...fieldFacts, validation })]),
);

export const fieldName = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;

/** Names that a submission uses itself, those under which captcha services put their answer among them. */
export const captchaNames = [
  'captchaToken',
  'g-recaptcha-response',
  'h-captcha-response',
  'cf-turnstile-response',
] as const;
export const challengeNames = { challenge: '_challenge', solution: '_solution' } as const;
export const reservedNames: ReadonlySet<string> = new Set([
  ...captchaNames,
  ...Object.values(challengeNames),
]);
/** Names that reach for prototypes. */
export const poisonousNames: ReadonlySet<string> = new Set([
  '__proto__',
  'constructor',
  'prototype',
]);
