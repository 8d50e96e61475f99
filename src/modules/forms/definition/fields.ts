/** From fields as they are written, in either vocabulary, to fields that a form can serve. */

import { compilePattern } from '../../../data/schema/language/pattern/compile.ts';
import { PatternError } from '../../../data/schema/language/pattern/syntax.ts';
import type { Problem } from '../../../kernel/errors.ts';
import {
  type FormField,
  fieldName,
  fieldTypeOf,
  fieldTypes,
  type GivenField,
  poisonousNames,
  reservedNames,
} from './field.ts';
import { readValue } from './values.ts';

/** As a list, or by name as the code of the 0.16 line has them. */
export type GivenFields =
  | readonly GivenField[]
  | Readonly<Record<string, string | Omit<GivenField, 'name'>>>;

export interface FieldBounds {
  /** Fields of one form. */
  readonly fields: number;
  /** Characters of one value. */
  readonly valueLength: number;
  readonly honeypotField: string;
}

const asList = (given: GivenFields): readonly GivenField[] =>
  Array.isArray(given)
    ? (given as readonly GivenField[])
    : Object.entries(given as Exclude<GivenFields, readonly GivenField[]>).map(([name, one]) =>
        typeof one === 'string' ? { name, type: one } : { name, ...one },
      );

/** The fields of a form. What is wrong with them is added to `problems`. */
export function readFields(
  given: GivenFields,
  bounds: FieldBounds,
  problems: Problem[],
): readonly FormField[] {
  const list = asList(given);
  if (list.length === 0)
    problems.push(problemAt('fields', 'minItems', 'a form has at least one field'));
  if (list.length > bounds.fields) {
    problems.push(problemAt('fields', 'maxItems', `a form has at most ${bounds.fields} fields`));
    return [];
  }
  const seen = new Set<string>();
  return list.flatMap((one, i) => {
    const place = Array.isArray(given) ? `fields.${i}` : `fields.${one.name}`;
    const field = readField(one, place, problems);
    problems.push(...nameProblems(one.name, `${place}.name`, bounds));
    if (seen.has(one.name))
      problems.push(problemAt(`${place}.name`, 'unique', 'another field has this name'));
    seen.add(one.name);
    if (!field) return [];
    problems.push(...ruleProblems(field, place, bounds));
    return [field];
  });
}

const problemAt = (path: string, rule: string, message: string): Problem => ({
  path,
  rule,
  message,
});

function readField(
  { validation, ...given }: GivenField,
  place: string,
  problems: Problem[],
): FormField | undefined {
  const type = fieldTypeOf(given.type);
  if (type === undefined) {
    problems.push(
      problemAt(
        `${place}.type`,
        'enum',
        `must be one of ${fieldTypes.join(', ')} (or String, Number, Date, File)`,
      ),
    );
    return undefined;
  }
  return { ...validation, ...given, type, required: given.required ?? false };
}

function nameProblems(
  name: string,
  place: string,
  { honeypotField }: FieldBounds,
): readonly Problem[] {
  if (!fieldName.test(name))
    return [
      problemAt(
        place,
        'pattern',
        'must begin with a letter or _, and hold at most 64 of A-Z, a-z, 0-9, _, . and -',
      ),
    ];
  if (poisonousNames.has(name) || reservedNames.has(name) || name === honeypotField)
    return [problemAt(place, 'reserved', 'this name is taken by the platform')];
  return [];
}

/** Rules that belong to other types, and rules that contradict each other. */
const rulesOf: Readonly<Record<string, readonly FormField['type'][]>> = {
  minLength: ['text', 'textarea'],
  maxLength: ['text', 'textarea'],
  pattern: ['text', 'textarea'],
  min: ['number', 'date'],
  max: ['number', 'date'],
  integer: ['number'],
  options: ['select'],
  multiple: ['select', 'file'],
  mimeTypes: ['file'],
  maxSize: ['file'],
};

function ruleProblems(field: FormField, place: string, bounds: FieldBounds): readonly Problem[] {
  const misplaced = Object.entries(rulesOf)
    .filter(([rule, types]) => Object.hasOwn(field, rule) && !types.includes(field.type))
    .map(([rule, types]) =>
      problemAt(`${place}.${rule}`, 'type', `is a rule of ${types.join(' and ')} fields`),
    );
  if (misplaced.length > 0) return misplaced;
  return [
    ...(field.type === 'select' && !field.options
      ? [problemAt(`${place}.options`, 'required', 'a select field has options')]
      : []),
    ...patternProblems(field, place),
    ...boundProblems(field, place),
    ...defaultProblems(field, place, bounds),
  ];
}

function patternProblems({ pattern }: FormField, place: string): readonly Problem[] {
  if (pattern === undefined) return [];
  try {
    compilePattern(pattern);
    return [];
  } catch (error) {
    if (error instanceof PatternError)
      return [problemAt(`${place}.pattern`, 'pattern', error.message)];
    throw error;
  }
}

function boundProblems(field: FormField, place: string): readonly Problem[] {
  const { min, max, minLength, maxLength } = field;
  const ends = Object.entries({ min, max }).flatMap(([rule, value]) => {
    if (value === undefined) return [];
    const read = readValue({ name: rule, type: field.type, required: true }, value, 100_000);
    return 'problem' in read
      ? [problemAt(`${place}.${rule}`, 'type', `must be a ${field.type}`)]
      : [];
  });
  if (ends.length > 0) return ends;
  const order = (value: string | number | undefined): number | undefined => {
    if (value === undefined) return undefined;
    return field.type === 'date' ? Date.parse(String(value)) : Number(value);
  };
  const [from, to] = [order(min), order(max)];
  if (from !== undefined && to !== undefined && from > to)
    return [problemAt(`${place}.max`, 'range', 'must not be before min')];
  if (minLength !== undefined && maxLength !== undefined && minLength > maxLength)
    return [problemAt(`${place}.maxLength`, 'range', 'must not be less than minLength')];
  return [];
}

/** A default is what a submitter could have sent. */
function defaultProblems(
  field: FormField,
  place: string,
  { valueLength }: FieldBounds,
): readonly Problem[] {
  if (field.default === undefined) return [];
  if (field.type === 'file')
    return [problemAt(`${place}.default`, 'type', 'a file field has no default')];
  const read = readValue(field, field.default, valueLength);
  return 'problem' in read
    ? [problemAt(`${place}.default`, read.problem.code, read.problem.message)]
    : [];
}
