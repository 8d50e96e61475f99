/** Whole numbers that a document writes out and JavaScript cannot hold: only their place knows whether each digit counts. */
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { readShape, takesText } from './shape.ts';

export class WholeNumber {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }

  /** In free JSON, where a variable brings it. */
  toJSON(): number {
    return Number(this.digits);
  }
}

/** The value with such numbers as text where the place takes text, and elsewhere as the nearest number, as a JSON body has them. */
export function settled(value: unknown, schema: JsonSchema): unknown {
  if (value instanceof WholeNumber) return takesText(schema) ? value.digits : Number(value.digits);
  if (typeof value !== 'object' || value === null) return value;
  const { shape } = readShape(schema);
  if (Array.isArray(value)) return shape.kind === 'list' ? value.map((item) => settled(item, shape.items)) : value;
  if (shape.kind !== 'object') return value;
  const result = Object.create(null) as Record<string, unknown>;
  for (const [key, part] of Object.entries(value)) result[key] = settled(part, shape.object.properties.get(key) ?? {});
  return result;
}
