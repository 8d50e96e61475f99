/** What a picture is asked to become, and what came of it. */

export const imageFits = ['cover', 'contain', 'inside'] as const;
export const imageFormats = ['webp', 'avif', 'jpeg', 'png'] as const;

export interface ImageOptions {
  /** Pixels. */
  readonly w?: number | undefined;
  readonly h?: number | undefined;
  readonly fit: (typeof imageFits)[number];
  readonly format: (typeof imageFormats)[number];
  /** 1 to 100. */
  readonly quality: number;
}

export interface RenderTask {
  readonly id: number;
  readonly source: Uint8Array;
  readonly options: ImageOptions;
  /** Pixels of the source that are decoded at most. */
  readonly maxPixels: number;
}

/** `refused`: no picture, a broken one, or one that is too large. `animated`: sent as it is. */
export type RenderAnswer =
  | { readonly id: number; readonly outcome: 'refused' }
  | { readonly id: number; readonly outcome: 'animated' }
  | { readonly id: number; readonly outcome: 'rendered'; readonly data: Uint8Array };
