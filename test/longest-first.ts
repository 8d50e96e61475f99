import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take longest, the longest first: begun at the end of a run, one of them would be waited for alone. */
const long = [
  'acceptance/nemesis/nemesis.test.ts',
  'acceptance/fuzz.test.ts',
  'acceptance/start.test.ts',
  'authorization/engine/property/agreement.test.ts',
  'acceptance/process/supervise.test.ts',
  'storage/providers/remote/failing.test.ts',
  'acceptance/acknowledged.test.ts',
  'communications/mail-providers.test.ts',
  'acceptance/process/workers.test.ts',
  'acceptance/field-options.test.ts',
  'communications/sms-providers.test.ts',
  'src/cli/doctor.test.ts',
];

const placeOf = ({ moduleId }: TestSpecification): number => {
  const place = long.findIndex((path) => moduleId.endsWith(path));
  return place < 0 ? long.length : place;
};

/** The order of vitest, but for files that are known to take long. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => placeOf(a) - placeOf(b));
  }
}
