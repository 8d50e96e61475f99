/** Who may write the fields by which the schema `User` was extended, where their definitions do not say it. */
import Type from 'typebox';

export const userDataConfig = Type.Object({
  openByDefault: Type.Boolean({
    default: false,
    description:
      'Whether users may write every field that extends `User` and has no `access.write` of its own, with `userData`. Off: only operators and the server write those.',
  }),
  openFields: Type.Array(Type.String({ maxLength: 64 }), {
    default: [],
    maxItems: 1_000,
    description:
      'Fields that users may write although their definition has no `access.write`: those that were there before such fields belonged to the server. Better say it in the definition.',
  }),
});
