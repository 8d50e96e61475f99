/** What a template is made of once it is read. */

/** Where a value is looked up: so many blocks further out, then along names. `@` values have their own name. */
export interface Path {
  readonly kind: 'path';
  readonly up: number;
  /** Begins at the value of the block itself (`this.name`), past names that blocks give. */
  readonly own: boolean;
  readonly names: readonly string[];
}

export type Expression =
  | Path
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'lookup'; readonly of: Expression; readonly key: Expression };

export type Node =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'value';
      readonly of: Expression;
      readonly raw: boolean;
      /** It begins an address (`href="{{link}}"`): what would run there as a program is left out. */
      readonly address: boolean;
    }
  | {
      readonly kind: 'choice' | 'each' | 'with';
      readonly of: Expression;
      /** Names for the entry and its key (`as |entry key|`). */
      readonly names: readonly string[];
      /** For `choice`: when it is there; for the others: with what is found. */
      readonly truthy: readonly Node[];
      readonly falsy: readonly Node[];
    }
  | {
      readonly kind: 'partial';
      readonly name: string;
      readonly of: Expression | undefined;
      readonly given: readonly (readonly [name: string, value: Expression])[];
      /** What stands inside `{{#> name}} .. {{/name}}`. */
      readonly block: readonly Node[] | undefined;
    }
  /** `{{> @partial-block}}`: what whoever uses this partial has put into it. */
  | { readonly kind: 'slot' };

/** Thrown for texts that are no templates; the message says where. */
export class TemplateError extends Error {}
