/** A rule with types: what the checker makes of the syntax, and what evaluation and SQL start from. */
import type { Field } from '../schema/language/field.ts';
import type { FunctionId } from './functions.ts';
import type { RuleType } from './types.ts';
import type { RuleValue } from './values.ts';

interface Common {
  readonly type: RuleType;
  /** May be null. Everything else has a value, or none at all (an error). */
  readonly nullable: boolean;
  /** Depends on the record. */
  readonly row: boolean;
  /** Where it stands in the text. */
  readonly at: number;
}

/** Outcomes of a boolean part, as bits. An error is neither true nor false, and stays one when it is negated. */
export const isTrue = 1;
export const isFalse = 2;
export const isError = 4;
export const anything = isTrue | isFalse | isError;

export type Macro = 'exists' | 'all' | 'exists_one' | 'filter' | 'map';

export type Expression = Common &
  (
    | { readonly kind: 'constant'; readonly value: RuleValue }
    /** A value from outside: `now`, `caller.id`, a parameter. */
    | { readonly kind: 'input'; readonly name: string }
    /** A column of the record. */
    | { readonly kind: 'field'; readonly name: string; readonly field: Field }
    /** An element of the list that a macro goes through. */
    | { readonly kind: 'variable'; readonly name: string; readonly field?: Field }
    /** A member of an object, of free JSON or of a map. */
    | {
        readonly kind: 'member';
        readonly of: Expression;
        readonly key: string;
        readonly field?: Field;
      }
    | { readonly kind: 'index'; readonly of: Expression; readonly key: Expression }
    /** One of several known values, by a text of the record; an error for other texts. */
    | {
        readonly kind: 'choice';
        readonly key: Expression;
        readonly entries: readonly (readonly [key: string, value: Expression])[];
      }
    | { readonly kind: 'has'; readonly of: Expression }
    | { readonly kind: 'and' | 'or'; readonly of: readonly Expression[] }
    | { readonly kind: 'not'; readonly of: Expression }
    | {
        readonly kind: 'if';
        readonly condition: Expression;
        readonly yes: Expression;
        readonly no: Expression;
      }
    | { readonly kind: 'equal'; readonly left: Expression; readonly right: Expression }
    | {
        readonly kind: 'order';
        readonly operator: '<' | '<=' | '>' | '>=';
        readonly left: Expression;
        readonly right: Expression;
      }
    | { readonly kind: 'in'; readonly item: Expression; readonly list: Expression }
    | { readonly kind: 'list'; readonly items: readonly Expression[] }
    | {
        readonly kind: 'map';
        readonly entries: readonly (readonly [key: string, value: Expression])[];
      }
    /** Free JSON taken as a scalar, a list or a map; of another type it is an error. */
    | { readonly kind: 'narrow'; readonly of: Expression }
    | { readonly kind: 'call'; readonly function: FunctionId; readonly of: readonly Expression[] }
    | {
        readonly kind: 'each';
        readonly macro: Macro;
        readonly list: Expression;
        readonly variable: string;
        readonly body: Expression;
      }
    /** Left over from evaluation: values are missing, or there is an error. */
    | { readonly kind: 'open'; readonly outcomes: number; readonly names: readonly string[] }
  );

export type Of<K extends Expression['kind']> = Extract<Expression, { readonly kind: K }>;
