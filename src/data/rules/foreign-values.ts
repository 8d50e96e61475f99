/** Values that a rule compares a field with and that the field cannot have: slips, as a comparison with them is never true. */
import { cutText } from '../../kernel/text.ts';
import type { Field } from '../schema/language/field.ts';
import { type Expression, isError, isFalse } from './expression.ts';

export interface ForeignValue {
  /** Where it stands in the text. */
  readonly at: number;
  readonly message: string;
}

type Enum = readonly (string | number)[];

/** Of one part of a rule, without those inside of it. */
export function foreignValues(part: Expression): readonly ForeignValue[] {
  switch (part.kind) {
    case 'equal':
      return [
        ...foreignTo(enumOf(part.left), constantsOf(part.right)),
        ...foreignTo(enumOf(part.right), constantsOf(part.left)),
      ];
    case 'in':
      return [
        ...foreignTo(enumOf(part.item), itemsOf(part.list)),
        ...foreignTo(enumOfItems(part.list), constantsOf(part.item)),
      ];
    case 'index':
      return foreignTo(enumOf(part.key), keysOf(part.of) ?? []);
    default:
      return [];
  }
}

/** What a part comes to that compares a field with such values alone; `undefined` where it may be true. */
export function foreignOutcomes(part: Expression): number | undefined {
  const compared = comparedValues(part);
  if (compared === undefined || compared === 0) return undefined;
  if (foreignValues(part).length < compared) return undefined;
  // Nothing is null as such a value is; in no list is what is not there, and nothing is chosen by it.
  if (part.kind === 'equal') return isFalse;
  return part.kind === 'in' ? isFalse | isError : isError;
}

/** Values among which one must be the field's; `undefined` where they are not known. */
function comparedValues(part: Expression): number | undefined {
  switch (part.kind) {
    case 'equal':
      return [part.left, part.right].flatMap(constantsOf).length;
    case 'in':
      if (part.list.kind === 'list')
        return part.list.items.every(({ kind }) => kind === 'constant')
          ? part.list.items.length
          : undefined;
      return part.list.kind === 'constant'
        ? itemsOf(part.list).length
        : constantsOf(part.item).length;
    case 'index':
      return keysOf(part.of)?.length;
    default:
      return undefined;
  }
}

interface Constant {
  readonly value: unknown;
  readonly at: number;
}

function foreignTo(known: Enum | undefined, values: readonly Constant[]): readonly ForeignValue[] {
  if (!known) return [];
  return values
    .map(({ value, at }) => ({ value: typeof value === 'bigint' ? Number(value) : value, at }))
    .filter(({ value }) => typeof value === 'string' || typeof value === 'number')
    .filter(({ value }) => !known.some((one) => one === value))
    .map(({ value, at }) => ({
      at,
      message: `${JSON.stringify(value)} is none of the values that the field has: ${cutText(known.map((one) => JSON.stringify(one)).join(', '), 200)}`,
    }));
}

const constantsOf = (one: Expression): readonly Constant[] =>
  one.kind === 'constant' ? [one] : [];

function itemsOf(list: Expression): readonly Constant[] {
  if (list.kind === 'list') return list.items.flatMap(constantsOf);
  if (list.kind !== 'constant' || !Array.isArray(list.value)) return [];
  return list.value.map((value: unknown) => ({ value, at: list.at }));
}

/** Of a map that stands in the rule. */
function keysOf(map: Expression): readonly Constant[] | undefined {
  if (map.kind === 'map') return map.entries.map(([value]) => ({ value, at: map.at }));
  if (map.kind !== 'constant' || !(map.value instanceof Map)) return undefined;
  return [...map.value.keys()].map((value) => ({ value, at: map.at }));
}

/** The field whose value an expression is. */
function fieldOf(one: Expression): Field | undefined {
  switch (one.kind) {
    case 'field':
    case 'variable':
    case 'member':
      return one.field;
    case 'narrow':
      return fieldOf(one.of);
    case 'index':
      return itemsField(fieldOf(one.of));
    default:
      return undefined;
  }
}

const itemsField = (field: Field | undefined): Field | undefined =>
  field?.kind === 'array' ? field.items : undefined;

const enumOfField = (field: Field | undefined): Enum | undefined =>
  field?.kind === 'string' || field?.kind === 'number' ? field.enum : undefined;
const enumOf = (one: Expression): Enum | undefined => enumOfField(fieldOf(one));
const enumOfItems = (list: Expression): Enum | undefined => enumOfField(itemsField(fieldOf(list)));
