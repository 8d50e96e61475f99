/** From what was sent to what is stored: the fields of the form and nothing else. */
import { invalidValueProblem } from '../../../kernel/operations/invalid-value.ts';
import type { FormsConfig } from '../config.ts';
import type { FormDefinition } from '../definition/definition.ts';
import type { FormField } from '../definition/field.ts';
import { isBlank, readValue } from '../definition/values.ts';
import { type FieldProblem, fieldProblem, invalidSubmission } from '../errors.ts';
import type { Attachments } from './attachments.ts';
import type { Values } from './form-bodies.ts';

export type SubmissionData = Readonly<Record<string, unknown>>;

/** Throws SUBMISSION_INVALID with every field that is wrong. Unknown names are dropped. */
export async function readSubmission(
  definition: FormDefinition,
  values: Values,
  attachments: Attachments,
  limits: FormsConfig['limits'],
): Promise<SubmissionData> {
  const unstorable = invalidValueProblem(values, '');
  if (unstorable)
    throw invalidSubmission(fieldProblem(unstorable.path, unstorable.rule, unstorable.message));
  const problems: FieldProblem[] = [];
  const data: Record<string, unknown> = {};
  for (const field of definition.fields) {
    const given = Object.hasOwn(values, field.name) ? values[field.name] : undefined;
    const read =
      field.type === 'file'
        ? await readFile(field, given, attachments, problems)
        : readField(field, given, limits, problems);
    if (read !== undefined) data[field.name] = read;
  }
  if (problems.length > 0) throw invalidSubmission(...problems);
  return data;
}

function readField(
  field: FormField,
  given: unknown,
  { valueLength }: FormsConfig['limits'],
  problems: FieldProblem[],
): unknown {
  if (isBlank(given)) {
    if (field.default !== undefined) return readable(field, field.default, valueLength);
    if (field.required) problems.push(fieldProblem(field.name, 'required', 'is required'));
    // Browsers send nothing for a box that is not checked.
    return field.type === 'checkbox' && !field.required ? false : undefined;
  }
  const read = readValue(field, given, valueLength);
  if ('value' in read) return read.value;
  problems.push(fieldProblem(field.name, read.problem.code, read.problem.message));
  return undefined;
}

/** A default was looked at when the form was written. */
function readable(field: FormField, value: unknown, valueLength: number): unknown {
  const read = readValue(field, value, valueLength);
  return 'value' in read ? read.value : undefined;
}

/** Ids of the files of a field: one, or a list where it takes several. */
async function readFile(
  field: FormField,
  given: unknown,
  attachments: Attachments,
  problems: FieldProblem[],
): Promise<unknown> {
  const before = problems.length;
  if (!isBlank(given)) await attachments.takeValue(field, given, problems);
  const ids = attachments.arrived.filter((one) => one.field === field.name).map(({ file }) => file);
  if (problems.length > before) return undefined;
  if (ids.length === 0) {
    if (field.required) problems.push(fieldProblem(field.name, 'required', 'is required'));
    return undefined;
  }
  if (ids.length > 1 && !field.multiple)
    problems.push(fieldProblem(field.name, 'multiple', 'takes one file'));
  return field.multiple ? ids : ids[0];
}
