/** The memory of a table: which slot holds which passage of which record, and what is free. */

/** Of a record. */
export interface Passage {
  readonly id: string;
  /** Where it stands in the text of the record. */
  readonly starts: number;
  readonly ends: number;
}

/** Lists are read only outside, and change with the store. */
export interface PassageStore {
  /** Records by number; none: the number is free. */
  readonly ids: readonly (string | undefined)[];
  /** The record whose passage stands in a slot; -1: the slot is free. */
  readonly owners: readonly number[];
  /** Of the passage in a slot. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  /** Of the passages of a record, by its number. */
  readonly slotsOf: readonly (readonly number[])[];
  /** Vectors by slot; another array once more are needed than it takes. */
  vectors(): Float32Array;
  numberOf(id: string): number | undefined;
  /** Answers its slot. */
  put(passage: Passage, vector: Float32Array): number;
  /** All passages of a record. Answers the slots that they had. */
  forget(id: string): readonly number[];
  passages(): number;
}

const FIRST_CAPACITY = 256;

export function createPassageStore(dimensions: number): PassageStore {
  let vectors = new Float32Array(FIRST_CAPACITY * dimensions);
  const ids: (string | undefined)[] = [];
  const freeNumbers: number[] = [];
  const numbers = new Map<string, number>();
  const slotsOf: number[][] = [];
  const owners: number[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  const freeSlots: number[] = [];

  const takeNumber = (id: string): number => {
    const known = numbers.get(id);
    if (known !== undefined) return known;
    const number = freeNumbers.pop() ?? ids.length;
    ids[number] = id;
    slotsOf[number] = [];
    numbers.set(id, number);
    return number;
  };

  const takeSlot = (): number => {
    const reused = freeSlots.pop();
    if (reused !== undefined) return reused;
    const next = owners.length;
    if ((next + 1) * dimensions > vectors.length) vectors = enlarged(vectors);
    return next;
  };

  return {
    ids,
    owners,
    starts,
    ends,
    slotsOf,
    vectors: () => vectors,
    numberOf: (id) => numbers.get(id),
    put({ id, ...span }, vector) {
      const [at, number] = [takeSlot(), takeNumber(id)];
      owners[at] = number;
      starts[at] = span.starts;
      ends[at] = span.ends;
      vectors.set(vector, at * dimensions);
      slotsOf[number]?.push(at);
      return at;
    },
    forget(id) {
      const number = numbers.get(id);
      if (number === undefined) return [];
      const slots = slotsOf[number] ?? [];
      for (const slot of slots) {
        owners[slot] = -1;
        freeSlots.push(slot);
      }
      ids[number] = undefined;
      slotsOf[number] = [];
      freeNumbers.push(number);
      numbers.delete(id);
      return slots;
    },
    passages: () => owners.length - freeSlots.length,
  };
}

function enlarged(vectors: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const larger = new Float32Array(vectors.length * 2);
  larger.set(vectors);
  return larger;
}
