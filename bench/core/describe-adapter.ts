/** An adapter's name, and whether it is a software one. */
export function describeAdapter({ info }: GPUAdapter): { readonly name: string; readonly software: boolean } {
  return {
    name: [info.vendor, info.architecture, info.description].filter(Boolean).join(' '),
    software:
      info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${info.architecture} ${info.description}`),
  };
}
