/**
 * Conditions: one tree for filters of lists, custom endpoints, partial indexes, conditions of the permission model and
 * rules of roles. Each wire form has a reader that makes it; `sql.ts` and `evaluate.ts` say what it means. Values are
 * data and never operators.
 *
 * On records a condition is true or false: what is missing is equal to null and to nothing else, and `not` turns the
 * answer round.
 */

/** Where a value comes from. */
export type Operand =
  | FieldOperand
  | LiteralOperand
  /** An input of a custom endpoint. */
  | { readonly kind: 'input'; readonly name: string }
  /** What the request knows: `user.<field>` in custom endpoints, the values of a permission check. */
  | { readonly kind: 'context'; readonly name: string }
  /** A field of the user who asks. */
  | { readonly kind: 'caller'; readonly name: string }
  /** A value that a tuple carries. */
  | { readonly kind: 'attribute'; readonly name: string }
  | { readonly kind: 'now' };

/** `path`: dots lead into nested fields, list elements, free JSON and related records. */
export interface FieldOperand {
  readonly kind: 'field';
  readonly path: string;
}

export interface LiteralOperand {
  readonly kind: 'literal';
  readonly value: unknown;
}

export type Comparison = 'equal' | 'greater' | 'greaterOrEqual' | 'less' | 'lessOrEqual';

/** Tests that need no database. On a list of a record, one element that fits is enough. */
export type ValueTest<Right extends Operand = Operand> =
  | { readonly kind: Comparison; readonly right: Right }
  /** `right` is a list of values. */
  | { readonly kind: 'in'; readonly right: Right }
  /** Is there; in a record also not null. */
  | { readonly kind: 'exists' };

type TextTest<Right extends Operand> =
  /** With `wildcards`, `%` stands for anything; without, the text occurs somewhere as it is. */
  | {
      readonly kind: 'like';
      readonly right: Right;
      readonly wildcards: boolean;
      readonly ignoreCase: boolean;
    }
  /** The pattern language of `schema/language/pattern`. */
  | { readonly kind: 'matches'; readonly pattern: string; readonly ignoreCase: boolean }
  /** Words of a text, in any order: `-word` must not occur, `"two words"` stand together. */
  | { readonly kind: 'search'; readonly right: Right };

/** What is asked of one value. */
export type Test<Right extends Operand = FieldOperand | LiteralOperand> =
  | ValueTest<Right>
  | TextTest<Right>;

export interface Leaf<Left extends Operand = FieldOperand, Asked = Test> {
  readonly kind: 'test';
  readonly left: Left;
  readonly test: Asked;
  /** Where it stands in the input of whoever wrote it; problems are reported there. */
  readonly place: string;
}

/** No condition at all in `all` is true, in `any` false. */
export type Tree<Tested extends { readonly kind: 'test' }> =
  | Tested
  | { readonly kind: 'all' | 'any'; readonly of: readonly Tree<Tested>[] }
  | { readonly kind: 'not'; readonly of: Tree<Tested> };

/** A condition on records. */
export type Condition = Tree<Leaf>;

export const all = <T extends { readonly kind: 'test' } = Leaf>(
  ...of: readonly Tree<T>[]
): Tree<T> => ({ kind: 'all', of });
export const any = <T extends { readonly kind: 'test' } = Leaf>(
  ...of: readonly Tree<T>[]
): Tree<T> => ({ kind: 'any', of });
export const not = <T extends { readonly kind: 'test' } = Leaf>(of: Tree<T>): Tree<T> => ({
  kind: 'not',
  of,
});

export const field = (path: string): FieldOperand => ({ kind: 'field', path });
export const literal = (value: unknown): LiteralOperand => ({ kind: 'literal', value });

export const fieldTest = (path: string, test: Test, place = path): Leaf => ({
  kind: 'test',
  left: field(path),
  test,
  place,
});
export const equals = (path: string, value: unknown, place = path): Leaf =>
  fieldTest(path, { kind: 'equal', right: literal(value) }, place);
/** The text as it is, anywhere in the value; case does not matter. */
export const contains = (path: string, text: string, place = path): Leaf =>
  fieldTest(
    path,
    { kind: 'like', right: literal(text), wildcards: false, ignoreCase: true },
    place,
  );

/** The tests of a condition, in the order in which they stand. */
export function* leavesOf<T extends { readonly kind: 'test' }>(tree: Tree<T>): Generator<T> {
  if (tree.kind === 'test') yield tree;
  else if (tree.kind === 'not') yield* leavesOf(tree.of);
  else for (const part of tree.of) yield* leavesOf(part);
}

/** Tests and groups of one filter (spec/database.md section 3). */
export const MAX_NODES = 64;
